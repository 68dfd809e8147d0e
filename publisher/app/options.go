package app

import (
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

const description = `Publishes the events of a MongoDB event store to a topic of Azure Service Bus: every event at least once, the events of an aggregate in order. Run as many as you like: one leads, the others stand by.`

// Options configure a publisher. [Parse] makes them for a command.
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
