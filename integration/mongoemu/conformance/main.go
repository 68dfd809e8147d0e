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
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var with []string
	flags.Func("with", "a folder whose *.mjs run beside the scenarios; repeatable", func(folder string) error {
		with = append(with, folder)
		return nil
	})
	verbose := flags.Bool("verbose", false, "print the output of failed scenarios")
	timeout := flags.Duration("timeout", 5*time.Minute, "how long everything may take, the installation of the driver included")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, *timeout, fmt.Errorf("the time of %s is up", *timeout))
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
	return node.check(ctx, dir, s.URI(), with, *verbose, stdout)
}
