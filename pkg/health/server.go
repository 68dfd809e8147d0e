package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

const (
	// shutdownTimeout bounds how long a stopping server waits for its requests.
	shutdownTimeout = time.Second
	// maxPages bounds the pages that are made at the same time. A page takes more memory
	// than a probe, and a client that does not read it holds that memory.
	maxPages = 16
)

// Handler serves /livez, /readyz, and the pages in o: /metrics, /status and everything
// below it, /debug/pprof/. /livez answers 200 and "ok", or 503 and the loops that are stuck.
// /readyz answers with the verdict: 503 if the process is not ready, else 200.
func Handler(h *Health, o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if err := h.Live(); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answer(w, http.StatusOK, string(OK))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		v := h.Verdict()
		status := http.StatusOK
		if v.State == NotReady {
			status = http.StatusServiceUnavailable
		}
		answer(w, status, v.String())
	})
	pages := make(chan struct{}, maxPages)
	page := func(pattern string, handler http.Handler) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			select {
			case pages <- struct{}{}:
				defer func() { <-pages }()
				handler.ServeHTTP(w, r)
			default:
				w.Header().Set("Retry-After", "1")
				answer(w, http.StatusServiceUnavailable, "too many pages are being sent; retry later")
			}
		})
	}
	if o.Metrics != nil {
		page("GET /metrics", o.Metrics)
	}
	if o.Status != nil {
		page("GET /status", o.Status)
		page("GET /status/", o.Status)
	}
	if o.PProf {
		page("/debug/pprof/", http.HandlerFunc(pprof.Index))
		page("/debug/pprof/cmdline", http.HandlerFunc(pprof.Cmdline))
		page("/debug/pprof/profile", http.HandlerFunc(pprof.Profile))
		page("/debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
		page("/debug/pprof/trace", http.HandlerFunc(pprof.Trace))
	}
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a prober that has gone away needs no answer
}

// Options configure a [Server].
type Options struct {
	// Address is the address to listen on, [HOST]:PORT, if Listener is nil.
	Address string
	// Listener is an open listener; the server closes it.
	Listener net.Listener
	// Metrics answers /metrics; nil means that there is no such page.
	Metrics http.Handler
	// Status answers /status and everything below it; nil means that there is no such page.
	Status http.Handler
	// PProf serves /debug/pprof/ too.
	PProf bool
	// Hosts are host names that requests may have, beside the usual ones: see checkHost.
	Hosts []string
}

// Server serves [Handler] from [Start] to Stop.
type Server struct {
	http     *http.Server
	listener net.Listener
	fail     context.CancelCauseFunc
	served   chan struct{}
	err      error
}

// Start listens and serves. It returns the context in which the process must work. That
// context ends with ctx, or with the server's error as its cause if the server ends by
// itself. The end of ctx does not end the server, because the probes must answer while the
// process stops. The caller ends the server with Stop, once.
func Start(ctx context.Context, h *Health, o Options) (*Server, context.Context, error) {
	l := o.Listener
	if l == nil {
		var lc net.ListenConfig
		var err error
		if l, err = lc.Listen(ctx, "tcp", o.Address); err != nil {
			return nil, nil, fmt.Errorf("listen on the admin address: %w", err)
		}
	}
	running, fail := context.WithCancelCause(ctx)
	s := &Server{
		http:     NewHTTPServer(HTTPOptions{Handler: checkHost(Handler(h, o), o.Hosts)}),
		listener: l, fail: fail, served: make(chan struct{}),
	}
	go s.serve()
	return s, running, nil
}

func (s *Server) serve() {
	defer close(s.served)
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		s.err = fmt.Errorf("serve the admin address: %w", err)
		s.fail(s.err)
	}
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Stop ends the server, and the context that Start returned. Running requests have a second
// to finish. The error is that of a server that has ended by itself before.
func (s *Server) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // cut off unfinished requests, such as a running profile
	}
	<-s.served
	s.fail(nil)
	return s.err
}
