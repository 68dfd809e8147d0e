package simulation

import (
	"fmt"
	"os"
	"testing"

	"github.com/penstock-cdc/penstock/integration/virtual"
)

func TestMain(m *testing.M) {
	if !virtual.AdvanceWithMutexes() {
		fmt.Println("skipped: simulations need -tags simulation -ldflags=-checklinkname=0, as make simulate gives them, and Go 1.26")
		os.Exit(0)
	}
	m.Run()
}
