// Command conformance runs the live tests of the Go SDK for Service Bus,
// azservicebus, against sbemu and prints what became of each.
//
// It copies the SDK's module from the module cache to a temporary folder,
// unchanged, and serves two namespaces on the ports that SDKs expect: one of
// the Standard tier on 127.0.0.2 and one of the Premium tier on 127.0.0.3,
// each with AMQP on 5672, AMQP over TLS on 5671 and the management API on 443,
// under a certificate of its own, and beside them an endpoint that gives out
// identity tokens. Port 443 needs the right to listen there.
//
// A live test is one that the SDK skips when it plays recordings back; which
// those are is found by running all tests that way first.
//
// It exits 1 where fewer tests pass than must, and prints its table in any case.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	passed, err := run(ctx, os.Args[1:])

	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	case !passed:
		os.Exit(1)
	}
}

type options struct {
	tests   *regexp.Regexp // nil: all
	verbose bool
	out     io.Writer
}

// suites are the packages of the SDK with live tests, and how many of them
// must pass.
var suites = []suite{
	{name: "azservicebus", pkg: ".", want: 66},
	{name: "admin", pkg: "./admin", want: 26},
	{name: "internal", pkg: "./internal", want: 10},
}

func run(ctx context.Context, args []string) (bool, error) {
	o := options{out: os.Stdout}

	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.Func("run", "run only the live tests that match this regular expression", func(text string) (err error) {
		o.tests, err = regexp.Compile(text)

		return err
	})
	flags.BoolVar(&o.verbose, "v", false, "print the output of failed tests")
	keep := flags.Bool("keep", false, "keep the temporary folder with the copy")
	timeout := flags.Duration("timeout", 14*time.Minute, "how long all may take")

	if err := flags.Parse(args); err != nil {
		return false, err
	}

	ctx, cancel := context.WithTimeoutCause(ctx, *timeout, fmt.Errorf("the time of %s is up", *timeout))
	defer cancel()

	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return false, fmt.Errorf("make temporary folder: %w", err)
	}

	if *keep {
		fmt.Fprintln(o.out, "working in", dir)
	} else {
		defer func() { _ = os.RemoveAll(dir) }()
	}

	module := filepath.Join(dir, "azservicebus")
	if err := copySDK(ctx, module); err != nil {
		return false, err
	}

	env, stop, err := serve(dir)
	if err != nil {
		return false, err
	}

	defer stop()

	return runSuites(ctx, suites, module, env, o), nil
}

// runSuites runs suites, prints their tables, and reports whether enough tests
// passed: of some tests only, all.
func runSuites(ctx context.Context, suites []suite, module string, env []string, o options) bool {
	tables := make([]*table, len(suites))

	for i, s := range suites {
		tables[i] = s.run(ctx, module, env, o)
		tables[i].print(o.out, o.verbose)
	}

	fmt.Fprintln(o.out)

	enough := true

	for _, t := range tables {
		enough = t.sum(o.out, o.tests != nil) && enough
	}

	return enough
}
