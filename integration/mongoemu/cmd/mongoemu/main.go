// Command mongoemu runs the MongoDB stand-in by itself; package mongoemu documents which
// commands it covers.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "mongoemu:", err)
	}

	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		os.Exit(1)
	}
}

// errUsage means that the flags or the environment are wrong.
var errUsage = errors.New("see --help")

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options

	if done, err := parse(&o, args, stdout, stderr); done || err != nil {
		return err
	}

	s, err := mongoemu.New(o.config())
	if err != nil {
		return err
	}

	return serve(ctx, s, stdout)
}

// release is the version that the build of an image sets. Other builds take the version of
// the module.
var release string

// parse reads the flags and the environment. done means that it has printed the help or the
// version.
func parse(o *options, args []string, stdout, stderr io.Writer) (done bool, err error) {
	version := cmp.Or(release, "(devel)")
	if info, ok := debug.ReadBuildInfo(); ok && release == "" && info.Main.Version != "" {
		version = info.Main.Version
	}

	parser, err := kong.New(o, kong.Name("mongoemu"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Vars{"version": "mongoemu " + version}, kong.Exit(func(int) { done = true }))
	if err != nil {
		return false, err
	}

	if _, err = parser.Parse(args); err != nil && !done {
		return false, fmt.Errorf("%w: %w", err, errUsage)
	}

	return done, nil
}
