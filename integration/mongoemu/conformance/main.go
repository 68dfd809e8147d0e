// Command conformance runs scenarios through the official Node.js driver against
// mongoemu and prints the outcome of each. Without Node.js it says so and succeeds.
//
// It serves mongoemu on a free port and copies the scenarios to a temporary folder. There
// it installs the version of the driver in package-lock.json with npm. It exits with status
// 1 if too few scenarios pass.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, cli.ErrHelp):
	case errors.Is(err, cli.ErrUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

var info = cli.Info{
	Name:        "conformance",
	Description: "Runs scenarios through the official Node.js driver against mongoemu.",
}

// options are the command's flags.
type options struct {
	Verbose bool          `help:"Print the output of failed scenarios."`
	Timeout time.Duration `help:"How long everything may take, the installation of the driver included." default:"5m"`
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var o options
	if err := cli.Parse(&o, info, args, os.LookupEnv, stdout, stderr); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("the time of %s is up", o.Timeout))
	defer cancel()
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return fmt.Errorf("make temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := mongoemu.New(mongoemu.Config{})
	if err != nil {
		return fmt.Errorf("serve mongoemu: %w", err)
	}
	if err := s.Start(); err != nil {
		return fmt.Errorf("serve mongoemu: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return node.check(ctx, dir, s.URI(), o.Verbose, stdout)
}
