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
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
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
	tests   string
	keep    bool
	verbose bool
	timeout time.Duration
}

// suites are the packages of the SDK with live tests, and how many of them
// must pass.
var suites = []suite{
	{name: "azservicebus", pkg: ".", want: 66},
	{name: "admin", pkg: "./admin", want: 26},
	{name: "internal", pkg: "./internal", want: 10},
}

func run(ctx context.Context, args []string) (bool, error) {
	var o options

	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.StringVar(&o.tests, "run", "", "run only the live tests that match this regular expression")
	flags.BoolVar(&o.keep, "keep", false, "keep the temporary folder with the copy and the full output")
	flags.BoolVar(&o.verbose, "v", false, "print the output of failed tests")
	flags.DurationVar(&o.timeout, "timeout", 14*time.Minute, "how long all may take")

	if err := flags.Parse(args); err != nil {
		return false, err
	}

	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()

	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return false, fmt.Errorf("make temporary folder: %w", err)
	}

	if o.keep {
		fmt.Println("working in", dir)
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

	return runSuites(ctx, module, env, o)
}

// runSuites runs all suites, prints the table, and reports whether enough
// tests passed.
func runSuites(ctx context.Context, module string, env []string, o options) (bool, error) {
	all := true

	var tables []*table

	for _, s := range suites {
		live, err := s.liveTests(ctx, module)
		if err != nil {
			return false, err
		}

		t, err := s.run(ctx, module, env, live, o)
		if err != nil {
			return false, err
		}

		t.print(o.verbose)

		tables = append(tables, t)
	}

	fmt.Println()

	for i, t := range tables {
		passed, failed, skipped := t.counts()
		fmt.Printf("%-14s %3d live tests: %3d passed (wanted: %d), %d failed, %d skipped\n",
			suites[i].name, len(t.results), passed, suites[i].want, failed, skipped)

		all = all && (o.tests != "" || passed >= suites[i].want)
	}

	return all, nil
}
