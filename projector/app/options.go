package app

import (
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// Options configure a projector. [Parse] makes them for a command.
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
