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

// shutdownTimeout bounds how long a stopping server waits for its requests.
const shutdownTimeout = time.Second

// Handler serves /livez, /readyz, /metrics where metrics is not nil, and
// /debug/pprof/ where withPprof. A probe answers 200 and "ok", or 503 and what is
// wrong.
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
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	text := "ok"
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = err.Error()
	}
	_, _ = io.WriteString(w, text+"\n") // a prober that has gone away needs no answer
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

// ServeListener is [Serve] on a listener that is open already, which it closes.
// Requests that still run when ctx ends have a second to finish.
func ServeListener(ctx context.Context, l net.Listener, h *Health, metrics http.Handler, withPprof bool) error {
	server := &http.Server{
		Handler:           Handler(h, metrics, withPprof),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
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
		_ = server.Close() // cut off what did not finish, such as a profile that runs
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the admin address: %w", err)
	}
	return nil
}
