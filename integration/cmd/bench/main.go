// Command bench measures both services beside the limits of the bare SDK and driver, and
// prints one table. Run it with `make bench`.
package main

import (
	"context"
	"io"
	"os"

	"github.com/penstock-cdc/penstock/integration/bench"
	"github.com/penstock-cdc/penstock/integration/cmd/internal/program"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

var info = cli.Info{
	Name:        "bench",
	Description: "Measure both services as processes over the stand-ins, each figure beside the limit of the bare SDK or driver in the same run.",
}

func main() { program.Main(info.Name, run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	// This program starts itself as a process to measure a limit.
	if len(args) == 3 && args[0] == "limit" {
		return bench.RunLimit(ctx, args[1], args[2], stdout)
	}
	var c config
	if _, err := cli.Parse(&c, info, args, os.LookupEnv, stdout, stderr); err != nil {
		return err
	}
	return c.run(ctx)
}
