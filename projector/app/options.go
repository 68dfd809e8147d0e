package app

import (
	"fmt"
	"io"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

const description = `Keeps read models in MongoDB up to date with the events of a topic of Azure Service Bus: each event takes effect once, those of an aggregate in order. Run as many as the load needs: they share the sessions of one subscription.`

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
	line, err := parseLine(args, environ, stdout, stderr, inCode)
	if err != nil {
		return Options{}, err
	}
	switch c := line.command.(type) {
	case *runCommand:
		return line.options(stdout)
	case *checkCommand:
		if len(c.Paths) > 0 {
			break
		}
		if err := c.report(stdout, line.projections); err != nil {
			return Options{}, err
		}
		return Options{}, cli.ErrHelp
	}
	return Options{}, fmt.Errorf("%s is a command, not the service: run it by Main", line.path)
}

// collections returns the collections of the projections' read models.
func collections(projections []*Projection) []string {
	names := make([]string, len(projections))
	for i, p := range projections {
		names[i] = p.Collection()
	}
	return names
}

// load returns the projections of the file or folder, if one is set, and those in code.
func load(path string, inCode []*Projection) ([]*Projection, error) {
	projections := inCode
	if path != "" {
		declared, err := projection.Load(path)
		if err != nil {
			return nil, err
		}
		projections = append(declared, inCode...)
	}
	if len(projections) == 0 {
		// The validation of the configuration has reported this already.
		return nil, nil
	}
	return projections, projection.CheckSet(projections)
}
