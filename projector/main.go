// Command projector keeps read models in MongoDB up to date with the events of a
// topic of Azure Service Bus.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/app"
)

// The exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() { os.Exit(run()) }

func run() int {
	options, err := app.ParseOptions(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, cli.ErrHelp):
		return exitOK
	case errors.Is(err, cli.ErrUsage):
		return exitUsage
	case err != nil:
		fmt.Fprintln(os.Stderr, "projector:", err)
		return exitFailed
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal drains. After it signals mean what they always do, so that
	// the second one aborts.
	context.AfterFunc(ctx, stop)

	if err := app.New(options).Run(ctx); err != nil {
		options.Logger.Error().Err(err).Msg("projector failed")
		return exitFailed
	}
	return exitOK
}
