// Proof prints docs/proof.md: what random histories and mutations have shown, from the record
// in integration/simulation/record, and the defects that were found.
//
//	go run ./integration/cmd/proof >docs/proof.md
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/penstock-cdc/penstock/integration/simulation/record"
)

// folder has the record, seen from the top of the repository.
const folder = "integration/simulation/record"

func main() {
	if err := write(os.Stdout, folder); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

// write writes the page of the record in a folder.
func write(w io.Writer, folder string) error {
	runs, err := record.Read[record.Run](folder, record.RunsFile)
	if err != nil {
		return err
	}
	trials, err := record.Read[record.Mutation](folder, record.MutationsFile)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s has no run of histories: make proof adds one", folder)
	}
	if _, err := io.WriteString(w, page(runs, trials)); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
