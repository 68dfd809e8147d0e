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
