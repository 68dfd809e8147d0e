// Command conformance runs clients of Service Bus against sbemu and prints the result of
// each of their tests: the live tests of the Go SDK, azservicebus, and this project's
// scenarios with the official SDKs for JavaScript and Python and with rhea, an AMQP library
// without Azure's code. If Node.js or the Python SDK is not installed, it says so and runs
// the rest.
//
// It copies the Go SDK's module from the module cache to a temporary folder,
// unchanged, and serves two namespaces on the ports that SDKs expect: one of
// the Standard tier on 127.0.0.2 and one of the Premium tier on 127.0.0.3,
// each with AMQP on 5672, AMQP over TLS on 5671 and the management API on 443,
// under a certificate of its own, and beside them an endpoint that gives out
// identity tokens. Port 443 needs the right to listen there.
//
// A live test is one that the SDK skips when it replays recordings. To find the live tests,
// the command first runs all tests in that mode.
//
// It exits with status 1 if too few tests pass, and always prints its table.
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
	passed, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)

	stop()

	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	case !passed:
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	Run     string
	Verbose bool
	With    string
	Keep    bool
	Timeout time.Duration
}

// parse reads the flags.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options

	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Run, "run", "", "run only the tests that match this regular `expression`; all of these must pass")
	flags.BoolVar(&o.Verbose, "verbose", false, "print the output of failed tests")
	flags.StringVar(&o.With, "with", "", "a `folder` with further JavaScript scenarios, *.mjs, which may import ./namespace.mjs; its *.ts are copied beside them; all scenarios must pass")
	flags.BoolVar(&o.Keep, "keep", false, "keep the temporary folder with the copy of the SDK")
	flags.DurationVar(&o.Timeout, "timeout", 14*time.Minute, "how long everything may take")

	if err := flags.Parse(args); err != nil {
		return options{}, err
	}

	if _, err := regexp.Compile(o.Run); err != nil {
		return options{}, fmt.Errorf("-run: %w", err)
	}

	return o, nil
}

// suites are the packages of the SDK with live tests, and how many of them must pass.
var suites = []suite{
	{name: "azservicebus", pkg: ".", want: 72},
	{name: "admin", pkg: "./admin", want: 32},
	{name: "internal", pkg: "./internal", want: 14},
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (bool, error) {
	o, err := parse(args, stderr)
	if err != nil {
		return false, err
	}

	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("the time of %s is up", o.Timeout))
	defer cancel()

	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return false, fmt.Errorf("make temporary folder: %w", err)
	}

	if o.Keep {
		fmt.Fprintln(stdout, "working in", dir)
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

	return runSuites(ctx, suites, clients, module, env, o, stdout), nil
}

// runSuites runs suites of the module's live tests and clients' scenarios, prints their
// tables, and reports whether enough tests passed. If only some tests were selected, all of
// them must pass.
func runSuites(ctx context.Context, suites []suite, clients []client, module string, env []string, o options, out io.Writer) bool {
	var tables []*table

	for _, s := range suites {
		tables = append(tables, s.run(ctx, module, env, o))
		tables[len(tables)-1].print(out, o.Verbose)
	}

	for _, c := range clients {
		tables = append(tables, c.run(ctx, filepath.Dir(module), env, o))
		tables[len(tables)-1].print(out, o.Verbose)
	}

	fmt.Fprintln(out)

	enough := true

	for _, t := range tables {
		enough = t.sum(out, o.Run != "") && enough
	}

	return enough
}
