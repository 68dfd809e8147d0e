package health_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/health"
)

func TestHandler(t *testing.T) {
	t.Parallel()
	ready := errors.New("no primary")
	h := health.New()
	h.Ready("mongodb", func(context.Context) error { return ready })
	h.Loop("stream", -time.Second).Beat() // stale at once
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metric 1\n") })
	healthy := health.New()

	for name, c := range map[string]struct {
		handler http.Handler
		method  string
		path    string
		status  int
		body    string
	}{
		"alive":          {health.Handler(healthy, metrics, false), "GET", "/livez", 200, "ok\n"},
		"ready":          {health.Handler(healthy, metrics, false), "GET", "/readyz", 200, "ok\n"},
		"not alive":      {health.Handler(h, metrics, false), "GET", "/livez", 503, "loop stream has made no progress"},
		"not ready":      {health.Handler(h, metrics, false), "GET", "/readyz", 503, "mongodb: no primary\n"},
		"metrics":        {health.Handler(h, metrics, false), "GET", "/metrics", 200, "metric 1\n"},
		"no metrics":     {health.Handler(h, nil, false), "GET", "/metrics", 404, ""},
		"no pprof":       {health.Handler(h, metrics, false), "GET", "/debug/pprof/", 404, ""},
		"pprof":          {health.Handler(h, metrics, true), "GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		"pprof index":    {health.Handler(h, metrics, true), "GET", "/debug/pprof/", 200, "profile"},
		"pprof cmdline":  {health.Handler(h, metrics, true), "GET", "/debug/pprof/cmdline", 200, ""},
		"post":           {health.Handler(h, metrics, false), "POST", "/livez", 405, ""},
		"something else": {health.Handler(h, metrics, true), "GET", "/", 404, ""},
	} {
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.path, http.NoBody))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s: got %d %q", name, w.Code, w.Body)
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- health.ServeListener(ctx, l, health.New(), nil, false) }()

	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/livez", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || string(body) != "ok\n" {
		t.Errorf("got %d %q, %v", response.StatusCode, body, err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}

	// The address is taken: a second server says so.
	if err := health.Serve(t.Context(), l.Addr().String(), health.New(), nil, false); err == nil || !strings.Contains(err.Error(), "listen for the admin server") {
		t.Errorf("second server: %v", err)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("stopped: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}

// A request that does not end is cut off when the server stops.
func TestServeCutsOff(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	arrived := make(chan struct{})
	endless := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	served := make(chan error, 1)
	go func() { served <- health.ServeListener(ctx, l, health.New(), endless, false) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		response, err := client.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		answered <- err
	}()
	<-arrived
	stop()
	if err := <-served; err != nil {
		t.Errorf("stopped: %v", err)
	}
	if err := <-answered; err == nil {
		t.Error("the request was answered")
	}
}

func TestServeReportsBrokenListener(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := health.ServeListener(t.Context(), l, health.New(), nil, false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
