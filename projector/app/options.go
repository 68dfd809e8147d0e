package app

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

const description = `Keeps read models in MongoDB up to date with the events of a topic of Azure Service Bus: each event takes effect once, those of an aggregate in order. Run as many as the load needs: they share the sessions of one subscription.`

// Options are what a projector is made of. Make them with [ParseOptions].
type Options struct {
	// Config is valid.
	Config config.Config
	// Projections are all that are to be kept up to date; their names and collections
	// are unique.
	Projections []*Projection
	// Logger is the process's.
	Logger zerolog.Logger
	// Registry takes the metrics and serves them; nil means a new one.
	Registry *prometheus.Registry
	// Listener is where the admin server listens; nil means Config's admin address.
	// Run closes it.
	Listener net.Listener
}

// ParseOptions reads the configuration from arguments (without the program's name)
// and environment, compiles the projections and makes the logger, which writes to
// stdout. inCode are projections in Go, to run beside those of the configured file
// or folder, which may then be left out. Help and problems are printed, those of
// the projections with file and line; the error is then [cli.ErrHelp] or
// [cli.ErrUsage]. With --check-projections, that is all it does. With --infer-events
// no projections are read, and the logger writes to stderr.
func ParseOptions(args []string, environ func(string) (string, bool), stdout, stderr io.Writer, inCode ...*Projection) (Options, error) {
	var o Options
	o.Config.Projections.InCode = len(inCode) > 0
	info := cli.Info{Name: "projector", Description: description}
	usage := cli.Parse(&o.Config, info, args, environ, stdout, stderr)
	if usage != nil && !errors.Is(usage, cli.ErrUsage) {
		return Options{}, usage
	}
	if o.Config.Projections.InferEvents > 0 && usage == nil {
		// What is inferred goes to stdout alone.
		logger, err := obs.NewLogger(stderr, o.Config.Process.Log)
		o.Logger = logger
		return o, err
	}
	projections, err := load(o.Config.Projections.Path, inCode)
	if err == nil {
		err = o.Config.CheckReadModels(collections(projections))
	}
	if err != nil {
		fmt.Fprintf(stderr, "projector: %v\n", err)
		usage = cli.ErrUsage
	}
	if usage != nil {
		return Options{}, usage
	}
	if o.Config.Projections.Check {
		fmt.Fprintf(stdout, "the configuration is right, and so are its projections: %d\n", len(projections))
		return Options{}, cli.ErrHelp
	}
	o.Projections = projections
	if o.Logger, err = obs.NewLogger(stdout, o.Config.Process.Log); err != nil {
		return Options{}, err
	}
	return o, nil
}

// collections are those of the projections' read models.
func collections(projections []*Projection) []string {
	names := make([]string, len(projections))
	for i, p := range projections {
		names[i] = p.Collection()
	}
	return names
}

// load gives the projections of the file or folder, if one is set, and those in
// code.
func load(path string, inCode []*Projection) ([]*Projection, error) {
	projections := inCode
	if path != "" {
		declared, err := project.Load(path)
		if err != nil {
			return nil, err
		}
		projections = append(declared, inCode...)
	}
	if len(projections) == 0 {
		// Config has said so.
		return nil, nil
	}
	return projections, project.CheckSet(projections)
}
