package app

import (
	"context"
	"io"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
)

// Main runs the command that the process's arguments name, by default the service, with the
// configuration of the environment and the given projections in Go. It returns the exit
// code when the command is done or a signal has ended it.
func Main(inCode ...*Projection) int {
	return cli.Main("projector", func(args []string, environ func(string) (string, bool), stdout, stderr io.Writer) (cli.Program, error) {
		return Parse(args, environ, stdout, stderr, nil, inCode...)
	})
}

// Parse returns the command that args (without the program's name) name, by default the
// service, with the configuration of environ and the given projections in Go. It prints help
// and problems; the error is then [cli.ErrHelp] or [cli.ErrUsage]. set changes the options
// before the command gets them; nil for none.
func Parse(args []string, environ func(string) (string, bool), stdout, stderr io.Writer, set func(*Options), inCode ...*Projection) (cli.Program, error) {
	e, err := operate.Parse(args, environ, stdout, stderr, inCode)
	if err != nil {
		return cli.Program{}, err
	}
	o := Options{Config: e.Config, Projections: e.Projections, Logger: e.Logger}
	if set != nil {
		set(&o)
		e.Config, e.Projections, e.Logger = o.Config, o.Projections, o.Logger
	}
	e.Serve = func(ctx context.Context) error {
		relaxCollector(environ)
		return New(o).Run(ctx)
	}
	program := cli.Program{Run: e.Run, Logger: o.Logger, Result: e.Result}
	if e.Service() {
		program.Variables = e.Variables
	} else {
		program.Command = e.Path
	}
	return program, nil
}
