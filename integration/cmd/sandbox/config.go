package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// seed is that of the generated shop: the same seed gives the same events.
const seed = 1

// config holds the flags.
type config struct {
	Count    int           `help:"Number of events of the generated shop." default:"20000" env:"DEMO_EVENTS" placeholder:"N"`
	LoadTime time.Duration `help:"Time over which the first four fifths of the events are stored; 0 stores them as fast as possible. The other events are stored ten times more slowly, during the rebuild." default:"16s" env:"DEMO_LOAD_TIME"`
	harness.Binaries
	Logs string `help:"Folder that keeps the services' logs. Without it they are removed if all went well." placeholder:"DIR"`
	Stay bool   `help:"Keep the pipeline up after the comparison, until Ctrl-C. The projectors then take their projections from the folder projections in --logs whenever it changes."`
}

// Validate returns every problem of the flags at once.
func (c *config) Validate() error {
	errs := []error{c.Check()}
	if c.Count < 1 {
		errs = append(errs, errors.New("--count must be at least 1"))
	}
	if c.Stay && c.Logs == "" {
		errs = append(errs, errors.New("--stay needs --logs: the folder of projections is in it"))
	}
	if c.LoadTime < 0 {
		errs = append(errs, errors.New("--load-time must not be negative"))
	}
	return errors.Join(errs...)
}

// run runs the workload, prints its result, and then keeps the pipeline up if requested.
// It reports whether the result is OK.
func (c *config) run(ctx context.Context) (ok bool, err error) {
	dir := c.Logs
	if dir == "" {
		if dir, err = os.MkdirTemp("", "penstock-sandbox-"); err != nil {
			return false, fmt.Errorf("make a folder for the logs: %w", err)
		}
		defer func() {
			if err == nil && ok {
				_ = os.RemoveAll(dir)
				return
			}
			fmt.Fprintln(os.Stderr, "sandbox: the services' logs are in", dir)
		}()
	} else if err := os.MkdirAll(dir, 0o750); err != nil {
		return false, fmt.Errorf("make the folder for the logs: %w", err)
	}

	backend, err := harness.StartEmbedded(harness.EmbeddedOptions{})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()

	w := shop.WithViews(c.Count, seed)
	result, err := sandbox.Run(ctx, sandbox.Options{
		Workload: w, Backend: backend,
		Binaries: c.Binaries, LoadTime: c.LoadTime, Dir: dir, View: sandbox.NewView(os.Stdout),
	})
	if err != nil {
		return false, err
	}
	result.Print(os.Stdout)
	if !c.Stay || !result.OK() {
		return result.OK(), nil
	}
	return true, sandbox.Stay(ctx, sandbox.StayOptions{
		Backend: backend, Binaries: c.Binaries, Dir: dir, Projections: w.Change.Projections,
		Print: func(line string) { fmt.Println(line) },
	})
}
