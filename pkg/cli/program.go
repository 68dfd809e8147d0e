package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
)

// Exit codes of the service and of every command. docs/commands.md lists the findings.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

const exitCodes = "Every command exits with status 0 if all went well, with status 1 if it failed or has found something to report, and with status 2 if the arguments, the configuration or the projections are wrong."

// Program is a configured service that is not running yet.
type Program struct {
	// Run runs the service until ctx ends. Then it finishes its work and returns nil. An
	// error tells the operator what to do.
	Run func(ctx context.Context) error
	// Logger logs the error of Run.
	Logger zerolog.Logger
	// Command is the path of the command that Run runs instead of the service. Its error is
	// printed as a line on stderr and not logged.
	Command string
	// Result is the stdout of the command; nil if there is no command. If a write of it has
	// failed, the command has failed.
	Result *Result
	// Variables are the environment variables that the program knows. The service logs a
	// warning for each variable that is probably one of them, misspelt.
	Variables []string
}

// ErrFindings is the error of a command that has already printed its findings. The process
// exits with status 1.
var ErrFindings = errors.New("the command has printed what is wrong")

// Main is the main function of a service, except for the exit. It returns the exit code.
// prepare reads the configuration with [Parse] and returns its errors. The first SIGINT or
// SIGTERM ends the context of Run; the second one ends the process.
func Main(name string, prepare func(args []string, environ func(string) (string, bool), stdout, stderr io.Writer) (Program, error)) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Another signal after the first has its default effect.
	context.AfterFunc(ctx, stop)
	return Run(ctx, name, os.Environ(), os.Stderr, func(environ func(string) (string, bool)) (Program, error) {
		return prepare(os.Args[1:], environ, os.Stdout, os.Stderr)
	})
}

// Run runs a program with the variables env (NAME=value) until ctx ends or it is done. It
// returns the exit code: 0, 1 if the program failed, 2 if its configuration is wrong.
// Errors that no logger takes are printed to stderr.
func Run(ctx context.Context, name string, env []string, stderr io.Writer, prepare func(environ func(string) (string, bool)) (Program, error)) int {
	program, err := prepare(func(variable string) (string, bool) {
		for _, setting := range slices.Backward(env) {
			if n, value, _ := strings.Cut(setting, "="); n == variable {
				return value, true
			}
		}
		return "", false
	})
	switch {
	case errors.Is(err, ErrHelp):
		return exitOK
	case errors.Is(err, ErrUsage):
		return exitUsage
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return exitFailed
	}
	if program.Command == "" {
		for _, m := range misspelt(env, program.Variables) {
			program.Logger.Warn().Str("variable", m.variable).Msg(m.variable + " is not known; did you mean " + m.meant + "?")
		}
	}
	err = program.Result.lost(program.Run(ctx))
	switch {
	case errors.Is(err, ErrFindings):
		return exitFailed
	case errors.Is(err, ErrUsage):
		return exitUsage
	case err != nil && program.Command != "":
		fmt.Fprintf(stderr, "%s %s: %v\n", name, program.Command, err)
		return exitFailed
	case err != nil:
		program.Logger.Error().Err(err).Msg(name + " failed")
		return exitFailed
	}
	return exitOK
}
