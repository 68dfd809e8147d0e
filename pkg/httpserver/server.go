package httpserver

import (
	"cmp"
	"net/http"
	"time"
)

const (
	// readTimeout bounds the time in which a client sends a request.
	readTimeout = 5 * time.Second
	// idleTimeout bounds the time that a connection stays open without a request.
	idleTimeout = time.Minute
	// maxHeaderBytes bounds the first line and the headers of a request; net/http adds 4 KiB.
	// The cookies of a proxy with a login are a few KiB.
	maxHeaderBytes = 16 << 10
	// defaultConnections is enough for probes, a scraper and some people.
	defaultConnections = 256
	// defaultWriteTimeout is longer than a scraper waits.
	defaultWriteTimeout = time.Minute
)

// Options configure a server. The zero value is valid.
type Options struct {
	// Handler answers requests.
	Handler http.Handler
	// Connections bounds the open connections; default 256. A new connection beyond the
	// bound closes the one that has waited for a request for the longest time.
	Connections int
	// WriteTimeout bounds the time from the header of a request to the end of its answer;
	// default 1 minute.
	WriteTimeout time.Duration
}

// New makes a server. The caller serves a listener with it, and shuts it down.
func New(o Options) *http.Server {
	c := newConnections(cmp.Or(o.Connections, defaultConnections))
	return &http.Server{
		Handler:           o.Handler,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      cmp.Or(o.WriteTimeout, defaultWriteTimeout),
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         c.changed,
	}
}
