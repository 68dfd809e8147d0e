package app

import (
	"cmp"
	"fmt"
	"io"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
)

// Options configure a projector. Make them with [ParseOptions].
type Options struct {
	// Config must be valid.
	Config config.Config
	// Projections are all projections to keep up to date. Their names and collections must
	// be unique.
	Projections []*Projection
	// Logger is the logger of the process.
	Logger zerolog.Logger
	// Registry collects the metrics that the process serves; nil means a new one.
	Registry *prometheus.Registry
	// Listener is used by the admin server; nil means that Run listens on Config's admin
	// address. Run closes the listener.
	Listener net.Listener
	// QueryListener is used for GET /applied; nil means that Run listens on Config's query
	// address, if there is one. Run closes the listener.
	QueryListener net.Listener
}

// ParseOptions reads the configuration of the service from args (without the program's
// name) and environ, compiles the projections and makes the logger, which writes to stdout.
// inCode are projections in Go that run beside those of the configured file or folder; with
// them, the file or folder is optional. ParseOptions prints help and problems, those of
// projections with file and line; the error is then [cli.ErrHelp] or [cli.ErrUsage]. With
// the command check and no paths, it only checks them. Arguments that name another command
// than run are an error: [Main] runs those.
func ParseOptions(args []string, environ func(string) (string, bool), stdout, stderr io.Writer, inCode ...*Projection) (Options, error) {
	e, err := operate.Parse(args, environ, stdout, stderr, inCode)
	if err != nil {
		return Options{}, err
	}
	if e.Service() {
		return optionsOf(e), nil
	}
	if checked, err := e.Check(); checked {
		return Options{}, cmp.Or(err, cli.ErrHelp)
	}
	return Options{}, fmt.Errorf("%s is a command, not the service: run it by Main", e.Path)
}

func optionsOf(e *operate.Environment) Options {
	return Options{Config: e.Config, Projections: e.Projections, Logger: e.Logger}
}
