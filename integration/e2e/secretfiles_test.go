package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// TestSecretsInFilesAreRotatedWithoutARestart checks that processes which read their secrets
// from files use new ones without a restart: nothing is lost, and nobody is refused when the
// earlier user and the earlier key are gone. A secret that the server does not accept changes
// nothing.
func TestSecretsInFilesAreRotatedWithoutARestart(t *testing.T) {
	needsProcesses(t)
	const events = 1500
	needsStandIns(t, "it brings stand-ins of its own: users of MongoDB and keys of Service Bus")
	t.Parallel()
	policy := sbemu.Policy{Name: "pipeline", Key: "b25l", SecondaryKey: "dHdv", Listen: true, Send: true}
	embedded := startWith(t, sbemu.Config{
		Policies: []sbemu.Policy{{Name: sbemu.DefaultPolicy, Key: sbemu.DefaultKey, Manage: true}, policy},
		Topics: []sbemu.Topic{{
			Name: "events", Record: 4 * events, DuplicateDetectionWindow: 10 * time.Minute, Subscriptions: []sbemu.Subscription{subscription},
		}},
	})
	embedded.Mongo = mongoemutest.Start(t, mongoemu.Config{
		Users: map[string]string{"operator": "operator", "first": "old"}, TransactionLifetime: 5 * time.Second,
	})
	b := withUsers{embedded}
	s := newScenarioOver(t, shop.New(events, 73), b)
	newProcedure(s).says("add a second user with the same roles, change the Secret, and remove the first user when every pod has logged `secret changed; the new one is in use`")
	uri, bus := filepath.Join(t.TempDir(), "uri"), filepath.Join(t.TempDir(), "connection-string")
	write := func(path, secret string) {
		t.Helper()
		// A new name for the whole file, as the kubelet does it.
		if err := os.WriteFile(path+".new", []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	with := func(key string) string {
		p := policy
		p.Key = key
		return embedded.Broker.ConnectionStringFor(p)
	}
	write(uri, b.uri("first", "old"))
	write(bus, with(policy.Key))
	s.SetEnv("MONGODB_URI=", "MONGODB_URI_FILE="+uri, "AZURE_SERVICEBUS_CONNECTION_STRING=", "AZURE_SERVICEBUS_CONNECTION_STRING_FILE="+bus)
	s.start(2, 2)
	s.load(3 * time.Second)
	s.awaitPublished(0.2)

	logged := func(what, path string) {
		t.Helper()
		for _, process := range s.started {
			s.await(process.Name+" to log "+what, func() bool {
				for line := range strings.Lines(s.log(process)) {
					if strings.Contains(line, what) && strings.Contains(line, path) {
						return true
					}
				}
				return false
			})
		}
	}
	write(uri, b.uri("second", "wrong"))
	write(bus, with("d3Jvbmc="))
	logged("MongoDB does not accept the user and password", uri)
	logged("Service Bus does not accept the key", bus)
	b.set(t, "second", "new")
	write(uri, b.uri("second", "new"))
	write(bus, with(policy.SecondaryKey))
	logged("secret changed; the new one is in use", uri)
	logged("secret changed; the new one is in use", bus)

	s.await("the leader to replace its connections to the topic", func() bool {
		for _, process := range s.started {
			if strings.Contains(s.log(process), "the key of the connection string has changed") {
				return true
			}
		}
		return false
	})
	b.Mongo.DropUser("first")
	if err := embedded.Broker.RegenerateKey(policy.Name, policy.Key, "bmV3"); err != nil {
		t.Fatal(err)
	}
	if n := embedded.Broker.DropConnections(nil); n == 0 {
		t.Fatal("no connection was dropped")
	}
	s.awaitPublished(0.8)
	s.invariants()
	for _, process := range s.started {
		if !process.Running() {
			t.Errorf("%s has ended", process.Name)
		}
		for line := range strings.Lines(s.log(process)) {
			refused := strings.Contains(line, "InvalidSignature") || strings.Contains(line, "Authentication failed")
			if refused && !strings.Contains(line, "changed secret not usable") {
				t.Errorf("%s was refused: %s", process.Name, line)
			}
		}
	}
}
