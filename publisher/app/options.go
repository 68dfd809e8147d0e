package app

import (
	"io"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

const description = `Publishes the events of a MongoDB event store to a topic of Azure Service Bus: every event at least once, the events of an aggregate in order. Run as many as you like: one leads, the others stand by.`

// Options are what a publisher is made of. Make them with [ParseOptions].
type Options struct {
	// Config is valid.
	Config config.Config
	// Logger is the process's.
	Logger zerolog.Logger
	// Registry takes the metrics and serves them; nil means a new one.
	Registry *prometheus.Registry
	// Listener is where the admin server listens; nil means Config's admin address.
	// Run closes it.
	Listener net.Listener
}

// ParseOptions reads the configuration from arguments (without the program's name)
// and environment, and makes the logger, which writes to stdout. Help and problems
// are printed; the error is then [cli.ErrHelp] or [cli.ErrUsage].
func ParseOptions(args []string, environ func(string) (string, bool), stdout, stderr io.Writer) (Options, error) {
	var o Options
	info := cli.Info{Name: "publisher", Description: description}
	if err := cli.Parse(&o.Config, info, args, environ, stdout, stderr); err != nil {
		return Options{}, err
	}
	var err error
	if o.Logger, err = obs.NewLogger(stdout, o.Config.Process.Log); err != nil {
		return Options{}, err
	}
	return o, nil
}
