package health

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

// HTTPOptions configure an HTTP server. The zero value is valid.
type HTTPOptions struct {
	// Handler answers requests.
	Handler http.Handler
	// Connections bounds the open connections; default 256. A new connection beyond the
	// bound closes the one that has waited for a request for the longest time.
	Connections int
	// WriteTimeout bounds the time from the header of a request to the end of its answer;
	// default 1 minute.
	WriteTimeout time.Duration
}

// NewHTTPServer makes an HTTP server for a port without authentication. Whoever reaches such a port
// must not be able to exhaust the memory of the process or to keep others from their answers. So the
// number of connections, the size of a request's header, and the time to send a request and to
// take its answer are bounded. The caller serves a listener with it, and shuts it down.
func NewHTTPServer(o HTTPOptions) *http.Server {
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
