package app_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/app"
)

const declared = `
projections:
  - name: users
    collection: userReadModels
    on:
      UserRegisteredEvent:
        set: {name: payload.name}
`

func environment(t *testing.T, projections string) map[string]string {
	t.Helper()
	env := map[string]string{
		"MONGODB_URI":                        "mongodb://127.0.0.1:1/?replicaSet=rs0&serverSelectionTimeoutMS=50",
		"AZURE_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0;UseDevelopmentEmulator=true",
		"AZURE_SERVICEBUS_TOPIC_NAME":        "events",
		"AZURE_SERVICEBUS_SUBSCRIPTION_NAME": "projector",
	}
	if projections != "" {
		path := filepath.Join(t.TempDir(), "projections.yaml")
		if err := os.WriteFile(path, []byte(projections), 0o600); err != nil {
			t.Fatal(err)
		}
		env["PENSTOCK_PROJECTIONS"] = path
	}
	return env
}

func parse(env map[string]string, inCode ...*app.Projection) (app.Options, string, error) {
	var stderr bytes.Buffer
	var o app.Options
	set := func(parsed *app.Options) { o = *parsed }
	_, err := app.Parse(nil, func(name string) (string, bool) { v, ok := env[name]; return v, ok }, io.Discard, &stderr, set, inCode...)
	return o, stderr.String(), err
}

func inGo(t *testing.T, name string) *app.Projection {
	t.Helper()
	p, err := app.NewProjection(app.Declaration{
		Name: name, Collection: name,
		Apply: func(state app.State, _ *event.Event) (app.State, error) { return state, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProblemsOfProjectionsAndConfigurationAreListedTogether(t *testing.T) {
	t.Parallel()
	env := environment(t, strings.Replace(declared, "payload.name", "nobody", 1)+"      Other:\n        foo: 1\n")
	env["PENSTOCK_SESSIONS"] = "-1"
	_, problems, err := parse(env)
	if !errors.Is(err, cli.ErrUsage) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"PENSTOCK_SESSIONS", "projections.yaml:7:", "nobody", "projections.yaml:9:", "foo"} {
		if !strings.Contains(problems, want) {
			t.Errorf("%q is not among the problems:\n%s", want, problems)
		}
	}
}

func TestProjectionsInGo(t *testing.T) {
	t.Parallel()
	o, problems, err := parse(environment(t, ""), inGo(t, "orders"))
	if err != nil || len(o.Projections) != 1 {
		t.Errorf("%d projections, %v\n%s", len(o.Projections), err, problems)
	}
	o, problems, err = parse(environment(t, declared), inGo(t, "orders"))
	if err != nil || len(o.Projections) != 2 {
		t.Errorf("%d projections, %v\n%s", len(o.Projections), err, problems)
	}
	if _, problems, err = parse(environment(t, declared), inGo(t, "users")); !errors.Is(err, cli.ErrUsage) || !strings.Contains(problems, "users") {
		t.Errorf("two projections of one name: %v\n%s", err, problems)
	}
	if _, problems, err = parse(environment(t, "")); !errors.Is(err, cli.ErrUsage) || !strings.Contains(problems, "PENSTOCK_PROJECTIONS") {
		t.Errorf("no projections at all: %v\n%s", err, problems)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// Without its stores a projector is alive, not ready, and stops immediately.
func TestProjectorWithoutStoresIsAliveAndNotReady(t *testing.T) {
	t.Parallel()
	env := environment(t, declared)
	// Nothing is in flight, so even on a busy machine a stop takes far less than this.
	env["PENSTOCK_DRAIN_TIMEOUT"] = "1h"
	o, problems, err := parse(env)
	if err != nil {
		t.Fatalf("%v\n%s", err, problems)
	}
	o.Logger = zerolog.Nop()
	var lc net.ListenConfig
	if o.Listener, err = lc.Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	base := "http://" + o.Listener.Addr().String()
	stop := testkit.Start(t, app.New(o).Run)

	if code, body := get(t, base+"/livez"); code != http.StatusOK {
		t.Errorf("/livez says %d %s", code, body)
	}
	code, body := get(t, base+"/readyz")
	for code != http.StatusServiceUnavailable {
		// The readiness checks are added after the admin server has started.
		code, body = get(t, base+"/readyz")
	}
	if !strings.Contains(body, "startup") && !strings.Contains(body, "servicebus") {
		t.Errorf("/readyz says %s", body)
	}
	if code, body := get(t, base+"/metrics"); code != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics says %d", code)
	}
	begin := time.Now()
	stop()
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("stopping took %s", took)
	}
}
