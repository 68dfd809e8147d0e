package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/penstock-cdc/penstock/integration/bench"
)

// config holds the flags.
type config struct {
	bench.Options
	List   bool   `help:"Print the names of the rows, and exit."`
	Format string `help:"What is printed: table, or go for benchstat." env:"FORMAT" enum:"table,go" default:"table"`
}

func (c *config) run(ctx context.Context) error {
	if c.List {
		for _, name := range bench.Names() {
			fmt.Println(name)
		}
		return nil
	}
	var err error
	if c.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find the own executable: %w", err)
	}
	c.Progress = os.Stderr
	report, failed := bench.Run(ctx, c.Options)
	if report == nil {
		return failed
	}
	// The table marks failed rows, and the others are valid.
	return errors.Join(failed, report.Write(os.Stdout, c.Format))
}
