// Command bench measures both services beside the limits of the bare SDK and driver, and
// prints one table. Run it with `make bench`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/penstock-cdc/penstock/integration/bench"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The limits are processes of this program.
	if len(os.Args) == 4 && os.Args[1] == "limit" {
		return report(bench.RunLimit(ctx, os.Args[2], os.Args[3], os.Stdout))
	}
	var c config
	info := cli.Info{
		Name:        "bench",
		Description: "Measure both services as processes over the stand-ins, each figure beside the limit of the bare SDK or driver in the same run.",
	}
	switch err := cli.Parse(&c, info, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr); {
	case errors.Is(err, cli.ErrHelp):
		return 0
	case errors.Is(err, cli.ErrUsage):
		return 2
	case err != nil:
		return report(err)
	}
	return report(c.run(ctx))
}

func report(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	return 1
}
