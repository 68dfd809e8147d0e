package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/penstock-cdc/penstock/integration/bench"
	"github.com/penstock-cdc/penstock/integration/harness"
)

// config holds the flags.
type config struct {
	Rows       string        `help:"Measure only the rows whose name matches this regular expression; --list names them." env:"BENCH" placeholder:"REGEXP"`
	List       bool          `help:"Print the names of the rows, and exit."`
	Rounds     int           `help:"How often each row is measured." env:"ROUNDS" default:"3" placeholder:"N"`
	Short      bool          `help:"Measure fewer events and shorter times, to try everything; the figures are not worth quoting." env:"SHORT"`
	Limits     bool          `help:"Measure the limits too." default:"true" negatable:""`
	Latency    time.Duration `help:"Latency that is added to each frame to and from the broker, each way." default:"2ms"`
	LatencyFor time.Duration `help:"How long each latency row loads the services; 0 means 60s, or 5s with --short." env:"LATENCY_FOR" default:"0"`
	Capacity   float64       `help:"Events/s of which the latency rows load 25, 50 and 80 %; 0 measures what both services reach. Give it to compare revisions at the same rate." env:"CAPACITY" default:"0" placeholder:"RATE"`
	Format     string        `help:"What is printed: table, or go for benchstat." env:"FORMAT" enum:"table,go" default:"table"`
	Publisher  string        `help:"Path of the publisher's executable." default:"bin/publisher" placeholder:"FILE"`
	Projector  string        `help:"Path of the projector's executable." default:"bin/projector" placeholder:"FILE"`
}

// Validate returns every problem of the flags at once.
func (c *config) Validate() error {
	var errs []error
	if _, err := regexp.Compile(c.Rows); err != nil {
		errs = append(errs, fmt.Errorf("BENCH: %w", err))
	}
	if c.Rounds < 1 {
		errs = append(errs, errors.New("ROUNDS must be at least 1"))
	}
	for _, path := range []string{c.Publisher, c.Projector} {
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, fmt.Errorf("%s is not there: run make build first", path))
		}
	}
	return errors.Join(errs...)
}

func (c *config) run(ctx context.Context) error {
	if c.List {
		for _, name := range bench.Names() {
			fmt.Println(name)
		}
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own executable: %w", err)
	}
	o := bench.Options{
		Binaries: harness.Binaries{Publisher: c.Publisher, Projector: c.Projector}, Self: self,
		Rounds: c.Rounds, Short: c.Short, WithoutLimits: !c.Limits,
		BrokerLatency: c.Latency, LatencyFor: c.LatencyFor, Capacity: c.Capacity,
		Progress: os.Stderr,
	}
	if c.Rows != "" {
		o.Rows = regexp.MustCompile(c.Rows)
	}
	report, failed := bench.Run(ctx, o)
	if report == nil {
		return failed
	}
	// The table marks failed rows, and the others are valid.
	return errors.Join(failed, report.Write(os.Stdout, c.Format))
}
