package e2e_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// TestSecretsAreNotPrinted runs the pipeline with a secret in every variable that may hold
// one, at the log level trace and through an outage. No log, page or command may show one.
func TestSecretsAreNotPrinted(t *testing.T) {
	needsProcesses(t)
	s, b := newScenarioWithUsers(t)
	const (
		password = "hunter2-password"
		header   = "hunter2-header"
		proxy    = "hunter2-proxy"
	)
	b.set(t, "service", password)
	uri := b.uri("service", password)
	bus := b.Bus().ConnectionString
	start := strings.Index(bus, "SharedAccessKey=") + len("SharedAccessKey=")
	key, _, _ := strings.Cut(bus[start:], ";")
	env := []string{
		"PENSTOCK_LOG_LEVEL=trace",
		"MONGODB_URI=" + uri,
		"PENSTOCK_EVENTS_MONGODB_URI=" + uri + "&appName=events",
		"PENSTOCK_STATE_MONGODB_URI=" + uri + "&appName=state",
		"PENSTOCK_READMODELS_MONGODB_URI=" + uri + "&appName=models",
		"OTEL_TRACES_EXPORTER=otlp",
		"OTEL_TRACES_SAMPLER=always_on",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1",
		// The SDK reports each of these entries, because none is a valid header.
		"OTEL_EXPORTER_OTLP_HEADERS=" + header + ",a b=" + header + ",authorization=" + header + "%zz",
		"OTEL_RESOURCE_ATTRIBUTES=" + header,
		"HTTPS_PROXY=http://user:" + proxy + "@127.0.0.1:1",
		"PENSTOCK_PPROF=true",
	}
	s.SetEnv(env...)
	var printed bytes.Buffer
	page := func(process *harness.Process, path string) {
		status, text := get(t, process, path)
		if status == 0 {
			t.Errorf("%s%s: %s", process.Name, path, text)
		}
		printed.WriteString(text)
	}
	pages := func() {
		for _, process := range s.Running() {
			for _, path := range []string{"/livez", "/readyz", "/metrics", "/status/", "/status/data", "/debug/pprof/cmdline"} {
				page(process, path)
			}
		}
	}
	commands := func() {
		for _, args := range []string{
			"check", "status", "checkpoint set now --why=test --dry-run", "quarantine list", "audit", "republish --aggregate=none --dry-run",
		} {
			_, stdout, stderr := command(t, suite.services.Publisher, append(s.Settings(), env...), strings.Fields(args)...)
			printed.WriteString(stdout + stderr)
		}
		for _, args := range []string{
			"check", "check --connect", "status", "projections list", "jobs list", "parked list", "deadletters list", "verify --sample=0.1", "audit", "explain --aggregate=none", "schema",
		} {
			_, stdout, stderr := command(t, suite.services.Projector, append(s.Settings(), env...), strings.Fields(args)...)
			printed.WriteString(stdout + stderr)
		}
	}
	s.start(1, 1)
	s.load(time.Second)
	s.awaitPublished(0.9)
	pages()
	commands()
	if !bytes.Contains(printed.Bytes(), []byte("penstock_publisher_leader 1")) || !bytes.Contains(printed.Bytes(), []byte("***")) {
		t.Error("pages and commands have printed nothing to compare")
	}
	// All requests to MongoDB fail, and then its logins.
	b.Mongo.FailCommands(mongoemu.CommandFault{Times: 40, Code: 6})
	s.await("the end of the faults", func() bool { return b.Mongo.PendingFaults() == 0 })
	b.Mongo.DropUser("service")
	b.reconnectServices(t)
	for _, process := range s.Running() {
		s.reportsWrongPassword(process)
	}
	pages()
	commands()
	for _, process := range s.started {
		printed.WriteString(s.log(process))
	}
	for _, secret := range []string{password, key, header, proxy} {
		for line := range strings.Lines(printed.String()) {
			if strings.Contains(line, secret) {
				t.Errorf("%s was printed: %s", secret, line)
			}
		}
	}
}
