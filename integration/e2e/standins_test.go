package e2e_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// subscription is the projector's subscription of a topic.
var subscription = sbemu.Subscription{Name: "projector", RequiresSession: true, LockDuration: 30 * time.Second}

// startWithPolicies starts the stand-ins, with more policies on the broker. The first
// policy allows everything, and the backend uses it.
func startWithPolicies(t *testing.T, policies ...sbemu.Policy) *harness.Embedded {
	t.Helper()
	return startWith(t, sbemu.Config{
		Policies: append([]sbemu.Policy{{Name: sbemu.DefaultPolicy, Key: sbemu.DefaultKey, Manage: true}}, policies...),
		Topics:   []sbemu.Topic{{Name: "events", Subscriptions: []sbemu.Subscription{subscription}}},
	})
}

// startWithTopics starts the stand-ins, the broker with these topics.
func startWithTopics(t *testing.T, names ...string) *harness.Embedded {
	t.Helper()
	var topics []sbemu.Topic
	for _, name := range names {
		topics = append(topics, sbemu.Topic{Name: name, DuplicateDetectionWindow: 10 * time.Minute, Subscriptions: []sbemu.Subscription{subscription}})
	}
	return startWith(t, sbemu.Config{Topics: topics})
}

// startWithCertificate starts the stand-ins, the broker also with WebSockets over TLS and the
// administration API at address. The file trusted has the certificate, which is valid for
// 127.0.0.1 and example.com.
func startWithCertificate(t *testing.T, c sbemu.Config) (backend *harness.Embedded, address, trusted string) {
	t.Helper()
	issuer := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(issuer.Close)
	trusted = filepath.Join(t.TempDir(), "trusted.pem")
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	address, err := proc.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	c.TLS = &sbemu.TLS{Config: &tls.Config{Certificates: issuer.TLS.Certificates, MinVersion: tls.VersionTLS12}, AdminAddress: address}
	return startWith(t, c), address, trusted
}

// startPair starts a pipeline with one process of each service, and waits until both are
// ready. They stop at the end of the test; their logs are shown if it has failed.
func startPair(ctx context.Context, t *testing.T, backend harness.Backend, o harness.PipelineOptions) (publisher, projector *harness.Process) {
	t.Helper()
	o.Programs, o.Dir = suite.services, t.TempDir()
	pipeline, err := harness.NewPipeline(backend, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		processes := pipeline.Running()
		pipeline.Kill()
		if t.Failed() {
			for _, process := range processes {
				t.Logf("%s:\n%s", process.Name, tail(process.Log))
			}
		}
	})
	if publisher, err = pipeline.StartPublisher("publisher"); err != nil {
		t.Fatal(err)
	}
	if projector, err = pipeline.StartProjector("projector"); err != nil {
		t.Fatal(err)
	}
	if err := pipeline.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return publisher, projector
}

// startWith starts the stand-ins. They stop at the end of the test.
func startWith(t *testing.T, c sbemu.Config) *harness.Embedded {
	t.Helper()
	broker, err := sbemu.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	return &harness.Embedded{Mongo: mongoemutest.Start(t, mongoemu.Config{}), Broker: broker}
}

// eventStore makes an empty collection of events with the index that publishers need.
func eventStore(t *testing.T, uri string) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	store := client.Database(harness.EventsDatabase).Collection(harness.EventsCollection)
	if _, err := store.Indexes().CreateOne(t.Context(), workload.Index()); err != nil {
		t.Fatal(err)
	}
	return store
}

// awaitHolds polls until the condition holds.
func awaitHolds(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout())
	defer cancel()
	for begun := time.Now(); !holds(); {
		pause := pollInterval()
		if isVirtual(t) {
			// Waiting costs nothing there, and looking does.
			pause = min(pause+time.Since(begun)/10, 250*time.Millisecond)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, settleTimeout())
		}
	}
}
