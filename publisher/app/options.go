package app

import (
	"fmt"
	"io"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

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

// ParseOptions reads the configuration of the service from arguments (without the
// program's name) and environment, and makes the logger, which writes to stdout. Help and
// problems are printed; the error is then [cli.ErrHelp] or [cli.ErrUsage]. Arguments that
// name another command than run are an error: [Main] runs those.
func ParseOptions(args []string, environ func(string) (string, bool), stdout, stderr io.Writer) (Options, error) {
	l, err := parseLine(args, environ, stdout, stderr)
	if err != nil {
		return Options{}, err
	}
	if _, ok := l.command.(*runCommand); !ok {
		return Options{}, fmt.Errorf("%s is a command, not the service: run it by Main", l.path)
	}
	return l.options(stdout)
}
