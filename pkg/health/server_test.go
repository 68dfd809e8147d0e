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
	paused := health.New()
	paused.Watch("pause", func(context.Context) []health.Condition {
		return []health.Condition{{Name: "paused", State: health.Degraded, Text: "paused by ada (\x1b[31mred\nalive)"}}
	})

	for name, c := range map[string]struct {
		handler http.Handler
		method  string
		path    string
		status  int
		body    string
	}{
		"alive":          {health.Handler(healthy, health.Options{Metrics: metrics}), "GET", "/livez", 200, "ok\n"},
		"ready":          {health.Handler(healthy, health.Options{Metrics: metrics}), "GET", "/readyz", 200, "ok\n"},
		"not alive":      {health.Handler(h, health.Options{Metrics: metrics}), "GET", "/livez", 503, "loop stream has made no progress"},
		"not ready":      {health.Handler(h, health.Options{Metrics: metrics}), "GET", "/readyz", 503, "mongodb: no primary\n"},
		"on one line":    {health.Handler(paused, health.Options{Metrics: metrics}), "GET", "/readyz", 200, "degraded\npaused: paused by ada ( [31mred alive)\n"},
		"metrics":        {health.Handler(h, health.Options{Metrics: metrics}), "GET", "/metrics", 200, "metric 1\n"},
		"no metrics":     {health.Handler(h, health.Options{}), "GET", "/metrics", 404, ""},
		"status":         {health.Handler(h, health.Options{Status: metrics}), "GET", "/status", 200, "metric 1\n"},
		"below status":   {health.Handler(h, health.Options{Status: metrics}), "GET", "/status/data", 200, "metric 1\n"},
		"no status":      {health.Handler(h, health.Options{}), "GET", "/status", 404, ""},
		"no pprof":       {health.Handler(h, health.Options{Metrics: metrics}), "GET", "/debug/pprof/", 404, ""},
		"pprof":          {health.Handler(h, health.Options{Metrics: metrics, PProf: true}), "GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		"pprof index":    {health.Handler(h, health.Options{Metrics: metrics, PProf: true}), "GET", "/debug/pprof/", 200, "profile"},
		"pprof cmdline":  {health.Handler(h, health.Options{Metrics: metrics, PProf: true}), "GET", "/debug/pprof/cmdline", 200, ""},
		"post":           {health.Handler(h, health.Options{Metrics: metrics}), "POST", "/livez", 405, ""},
		"something else": {health.Handler(h, health.Options{Metrics: metrics, PProf: true}), "GET", "/", 404, ""},
	} {
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.path, http.NoBody))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s: got %d %q", name, w.Code, w.Body)
		}
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	server, running, err := health.Start(ctx, health.New(), health.Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	live := func() {
		t.Helper()
		if code, body, err := get(t, "http://"+server.Addr().String()+"/livez"); err != nil || code != http.StatusOK || body != "ok\n" {
			t.Errorf("got %d %q, %v", code, body, err)
		}
	}
	live()

	// The address is in use, so a second server fails.
	if _, _, err := health.Start(t.Context(), health.New(), health.Options{Address: server.Addr().String()}); err == nil || !strings.Contains(err.Error(), "listen on the admin address") {
		t.Errorf("second server: %v", err)
	}
	if running.Err() != nil {
		t.Errorf("ended already: %v", context.Cause(running))
	}
	end()
	<-running.Done()
	live() // while the process stops
	if err := server.Stop(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	if _, _, err := get(t, "http://"+server.Addr().String()+"/livez"); err == nil {
		t.Error("a stopped server answers")
	}
}

func get(t *testing.T, url string) (status int, body string, err error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), errors.Join(err, response.Body.Close())
}

// A server that is stopped right after its start leaves no goroutine behind.
func TestServerStopsAtOnce(t *testing.T) {
	t.Parallel()
	l := listen(t)
	server, running, err := health.Start(t.Context(), health.New(), health.Options{Listener: l})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	if running.Err() == nil {
		t.Error("the server has stopped and its context has not ended")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// When the server stops, a request that does not end is aborted.
func TestServerStopsARequestThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	endless := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	server, _, err := health.Start(t.Context(), health.New(), health.Options{Address: "127.0.0.1:0", Metrics: endless})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, _, err := get(t, "http://"+server.Addr().String()+"/metrics")
		answered <- err
	}()
	<-arrived
	if err := server.Stop(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	if err := <-answered; err == nil {
		t.Error("the request was answered")
	}
}

// A server that fails ends the context of the process, and returns the reason.
func TestServerReportsBrokenListener(t *testing.T) {
	t.Parallel()
	l := listen(t)
	server, running, err := health.Start(t.Context(), health.New(), health.Options{Listener: l})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-running.Done()
	if cause := context.Cause(running); !errors.Is(cause, net.ErrClosed) {
		t.Errorf("cause %v", cause)
	}
	if err := server.Stop(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// A web page whose name an attacker has pointed to the process must not read its answers.
func TestHostNamesOfThePublicDNSAreRefused(t *testing.T) {
	t.Parallel()
	server := startServer(t, health.Options{Hosts: []string{"docs.example.com", " Penstock.example.com"}})
	for host, want := range map[string]int{
		"10.0.0.7:8080":                     http.StatusOK,
		"[fd00::7]:8080":                    http.StatusOK,
		"[fd00::7]":                         http.StatusOK,
		"localhost:8080":                    http.StatusOK,
		"penstock-publisher-0:8080":         http.StatusOK,
		"p-0.p.shop.svc:8080":               http.StatusOK,
		"p-0.p.shop.svc.cluster.local:8080": http.StatusOK,
		"p.shop.svc.cluster.local.":         http.StatusOK,
		"PENSTOCK.example.com:443":          http.StatusOK,
		"evil.example":                      http.StatusMisdirectedRequest,
		"svc.evil.example:8080":             http.StatusMisdirectedRequest,
		"10.0.0.7.evil.example":             http.StatusMisdirectedRequest,
		"other.example.com":                 http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/livez", "/readyz"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr().String()+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = host
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s of %q: status %d, want %d", path, host, response.StatusCode, want)
			}
		}
	}
}
