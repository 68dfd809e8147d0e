package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain also runs the limits as a program.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "limit" {
		if err := RunLimit(context.Background(), os.Args[2], os.Args[3], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
