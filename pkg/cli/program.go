package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
)

// The exit codes, of every command alike. docs/commands.md lists the findings.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

const exitCodes = "Every command exits with status 0 if all went well, with status 1 if it failed or has found something to report, and with status 2 if the arguments, the configuration or the projections are wrong."

// Program is a service that is configured and not running yet.
type Program struct {
	// Run runs the service until ctx ends; then it finishes what it has begun and
	// returns nil. An error says what an operator has to do.
	Run func(ctx context.Context) error
	// Logger takes the error of Run.
	Logger zerolog.Logger
	// Command is the path of a command that Run is instead of the service. Its error is
	// printed as a line on stderr, for a person, and not logged.
	Command string
}

// ErrFindings is the error of a command that has printed what is wrong and has nothing
// to add. The process exits 1.
var ErrFindings = errors.New("the command has printed what is wrong")

// Main is the main function of a service but for the exit, whose code it gives: 0,
// or 1 where the service failed, or 2 where its configuration is wrong. prepare
// reads the configuration as [Parse] does, and gives its errors. The first SIGINT
// or SIGTERM ends the context of Run; the second one ends the process.
func Main(name string, prepare func(args []string, environ func(string) (string, bool), stdout, stderr io.Writer) (Program, error)) int {
	program, err := prepare(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, ErrHelp):
		return exitOK
	case errors.Is(err, ErrUsage):
		return exitUsage
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return exitFailed
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal they mean what they always do.
	context.AfterFunc(ctx, stop)

	err = program.Run(ctx)
	switch {
	case errors.Is(err, ErrFindings):
		return exitFailed
	case errors.Is(err, ErrUsage):
		return exitUsage
	case err != nil && program.Command != "":
		fmt.Fprintf(os.Stderr, "%s %s: %v\n", name, program.Command, err)
		return exitFailed
	case err != nil:
		program.Logger.Error().Err(err).Msg(name + " failed")
		return exitFailed
	}
	return exitOK
}
