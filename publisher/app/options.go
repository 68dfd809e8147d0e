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

// Options configure a publisher. Make them with [ParseOptions].
type Options struct {
	// Config must be valid.
	Config config.Config
	// Logger is the logger of the process.
	Logger zerolog.Logger
	// Registry collects the metrics that the process serves; nil means a new one.
	Registry *prometheus.Registry
	// Listener is used by the admin server; nil means that Run listens on Config's admin
	// address. Run closes the listener.
	Listener net.Listener
}

// parseOptions reads the configuration of the service from args (without the program's
// name) and environ, and makes the logger, which writes to stdout. It prints help and
// problems; the error is then [cli.ErrHelp] or [cli.ErrUsage]. Arguments that name another
// command than run are an error: [Main] runs those.
func parseOptions(args []string, environ func(string) (string, bool), stdout, stderr io.Writer) (Options, error) {
	l, err := parseLine(args, environ, stdout, stderr)
	if err != nil {
		return Options{}, err
	}
	if _, ok := l.command.(*runCommand); !ok {
		return Options{}, fmt.Errorf("%s is a command, not the service: run it by Main", l.path)
	}
	return l.options(stdout)
}
