package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run checks the files that args name. It returns the exit code: 1 if a file has a
// finding, 2 if a file could not be checked.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(stderr, "dockerlint: no file is given: name the Dockerfiles to check")
		return 2
	}
	code := 0
	for _, path := range args {
		content, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintf(stderr, "dockerlint: read the file: %v\n", err)
			return 2
		}
		found, err := lint(ctx, path, content, stdout)
		if err != nil {
			fmt.Fprintf(stderr, "dockerlint: check %s: %v\n", path, err)
			return 2
		}
		if found {
			code = 1
		}
	}
	return code
}
