// Command compare runs programs that carry events out of MongoDB through the same scenarios,
// and prints one table. Run it with `make compare`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/penstock-cdc/penstock/integration/cmd/internal/program"
	"github.com/penstock-cdc/penstock/integration/compare"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

var info = cli.Info{
	Name:        "compare",
	Description: "Run Penstock's publisher, a loop that handles one event after the other, and other projects through the same scenarios, and print a table in Markdown.",
}

// config holds the flags.
type config struct {
	Conduit   string        `help:"Path of Conduit; its MongoDB connector is in the folder connectors beside it." env:"CONDUIT" placeholder:"FILE"`
	Monstache string        `help:"Path of Monstache." env:"MONSTACHE" placeholder:"FILE"`
	Connect   string        `help:"Path of Redpanda Connect." env:"CONNECT" placeholder:"FILE"`
	Mongo     string        `name:"mongodb-uri" help:"Connection string of a replica set; without it, the stand-in. The databases penstock-compare and penstock-compare-state are dropped." env:"MONGODB_URI" placeholder:"URI"`
	Events    int           `help:"Stored events of the snapshot." env:"EVENTS" default:"200000" placeholder:"N"`
	Rate      int           `help:"Live events per second." env:"RATE" default:"1000" placeholder:"N"`
	For       time.Duration `help:"How long live events are stored." env:"FOR" default:"60s"`
	Publisher string        `help:"Path of the publisher's executable." default:"bin/publisher" placeholder:"FILE"`
}

// Validate returns every problem of the flags at once.
func (c *config) Validate() error {
	var errs []error
	for _, path := range []string{c.Publisher, c.Conduit, c.Monstache, c.Connect} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, fmt.Errorf("%s is not there", path))
		}
	}
	if c.Events < 100 || c.Rate < 1 || c.For < time.Second {
		errs = append(errs, errors.New("EVENTS must be at least 100, RATE 1 and FOR 1s"))
	}
	return errors.Join(errs...)
}

func main() { program.Main(info.Name, run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	// This program starts itself as the loop.
	if len(args) == 2 && args[0] == "loop" {
		return compare.RunLoop(ctx, args[1])
	}
	var c config
	if err := cli.Parse(&c, info, args, os.LookupEnv, stdout, stderr); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own executable: %w", err)
	}
	return compare.Run(ctx, compare.Options{
		Publisher: c.Publisher, Self: self, Conduit: c.Conduit, Monstache: c.Monstache, Connect: c.Connect,
		Mongo: c.Mongo, Events: c.Events, Rate: c.Rate, For: c.For, Progress: stderr,
	}, stdout)
}
