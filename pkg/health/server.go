package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"
)

const (
	// checkTimeout bounds the checks of one readiness probe together: below the
	// kubelet's usual timeouts, so that the answer still says what is wrong.
	checkTimeout = 2 * time.Second
	// shutdownTimeout bounds how long a stopping server waits for its requests.
	shutdownTimeout = time.Second
)

// CheckReady runs the readiness checks at the same time and reports those that
// fail, by name; nil where all pass.
func (h *Health) CheckReady(ctx context.Context) error {
	h.mu.Lock()
	checks := slices.Clone(h.checks)
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()

	results := make([]chan error, len(checks))
	for i, c := range checks {
		results[i] = make(chan error, 1)
		go func() { results[i] <- c.run(ctx) }()
	}
	var failed []string
	for i, c := range checks {
		var err error
		select {
		case err = <-results[i]:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			failed = append(failed, c.name+": "+err.Error())
		}
	}
	if failed == nil {
		return nil
	}
	return errors.New(strings.Join(failed, "\n"))
}

// Handler serves /livez, /readyz, /metrics where metrics is not nil, and
// /debug/pprof/ where withPprof. Probes answer 200 "ok", or 503 and what is wrong.
func Handler(h *Health, metrics http.Handler, withPprof bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.Live()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { answer(w, h.CheckReady(r.Context())) })
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	if withPprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	text := "ok"
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = err.Error()
	}
	// A prober that has gone away needs no answer.
	_, _ = io.WriteString(w, text+"\n")
}

// Serve listens on addr and serves [Handler] until ctx ends, which is no error.
func Serve(ctx context.Context, addr string, h *Health, metrics http.Handler, withPprof bool) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for the admin server: %w", err)
	}
	return ServeListener(ctx, l, h, metrics, withPprof)
}

// ServeListener is [Serve] on a listener that exists, which it closes.
func ServeListener(ctx context.Context, l net.Listener, h *Health, metrics http.Handler, withPprof bool) error {
	server := &http.Server{
		Handler:           Handler(h, metrics, withPprof),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the admin address: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if server.Shutdown(stop) != nil {
		// A request that outlives its cancelled context is cut off.
		_ = server.Close()
	}
	<-served
	return nil
}
