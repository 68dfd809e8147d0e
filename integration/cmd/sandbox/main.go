// Command sandbox runs events through the whole pipeline on this machine, with
// stand-ins for MongoDB and Service Bus, kills the leading publisher, changes a
// projection while events come, and checks every read model. Run it with `make demo`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

func main() { os.Exit(run()) }

func run() int {
	var c config
	info := cli.Info{
		Name:        "sandbox",
		Description: "Run events through the whole pipeline on this machine, kill the leader, change a projection while events come, and check every read model.",
	}
	switch err := cli.Parse(&c, info, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr); {
	case errors.Is(err, cli.ErrHelp):
		return 0
	case errors.Is(err, cli.ErrUsage):
		return 2
	case err != nil:
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	ok, err := c.run(ctx, stop, term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stdin.Fd())))
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return 1
	}
	if !ok {
		fmt.Fprintln(os.Stderr, "sandbox: not every read model is right")
		return 1
	}
	return 0
}
