package harness_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// served runs the stand-ins as external servers: the tests know only their addresses, and
// the administration API uses plain HTTP, like Microsoft's emulator.
func served(t *testing.T) (*sbemu.Server, map[string]string) {
	t.Helper()
	store := mongoemutest.Start(t, mongoemu.Config{})
	broker, err := sbemu.New(sbemu.Config{})
	if err == nil {
		err = broker.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	administration := httptest.NewServer(broker.AdminHandler())
	t.Cleanup(administration.Close)
	return broker, map[string]string{
		"PENSTOCK_TEST_MONGODB_URI":                  store.URI(),
		"PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING": broker.ConnectionString(),
		"PENSTOCK_TEST_SERVICEBUS_ADMIN_ENDPOINT":    administration.URL,
		"PENSTOCK_TEST_SERVICEBUS_MAX_CONNECTIONS":   "10",
	}
}

func connect(t *testing.T, variables map[string]string) *harness.External {
	t.Helper()
	settings, err := harness.LoadExternal(environment(variables))
	if err != nil {
		t.Fatal(err)
	}
	external, err := harness.ConnectExternal(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := external.Close(); err != nil {
			t.Error(err)
		}
	})
	return external
}

// Pipelines that share servers do not see each other's data, and remove everything that
// they made.
func TestExternalBackends(t *testing.T) {
	t.Parallel()
	broker, variables := served(t)
	external := connect(t, variables)
	var open []*harness.ExternalBackend
	for range 2 {
		backend, err := external.Open(t.Context(), harness.TopicOptions{})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, backend)
	}
	first, second := open[0], open[1]
	if first.Bus().Topic == second.Bus().Topic || first.Databases() == second.Databases() {
		t.Fatalf("two pipelines share %+v, %+v", first.Bus(), first.Databases())
	}
	if bound := first.MaxConnections(); bound != 10 {
		t.Errorf("the bound of connections is %d, not 10", bound)
	}

	send(t, first.Bus(), "a/1", "b/1", "a/2", "a/1")
	if n, err := first.Published(); err != nil || n != 3 {
		t.Errorf("%d messages reached the topic (%v), not 3: the last is a duplicate", n, err)
	}
	send(t, first.Bus(), "b/2")
	if n, err := first.Published(); err != nil || n != 4 {
		t.Errorf("%d messages reached the topic (%v), not 4", n, err)
	}
	accepted, err := first.Accepted()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range accepted {
		ids = append(ids, m.MessageID)
		if m.Epoch != 3 || m.SessionID != m.AggregateID || m.At.IsZero() {
			t.Errorf("observed %+v", m)
		}
	}
	if want := []string{"a/1", "b/1", "a/2", "b/2"}; !slices.Equal(ids, want) {
		t.Errorf("the topic has %v, not %v", ids, want)
	}
	if backlog, err := first.Backlog(); err != nil || backlog != (harness.Backlog{Active: 4}) {
		t.Errorf("the backlog is %+v (%v)", backlog, err)
	}
	if n, err := second.Published(); err != nil || n != 0 {
		t.Errorf("%d messages of another pipeline are on the topic (%v)", n, err)
	}

	client := store(t, variables["PENSTOCK_TEST_MONGODB_URI"])
	if _, err := client.Database(first.Databases().Events).Collection("events").InsertOne(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	for _, backend := range open {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
		if _, err := broker.Totals(backend.Bus().Topic); !errors.Is(err, sbemu.ErrNotFound) {
			t.Errorf("topic %s is left behind (%v)", backend.Bus().Topic, err)
		}
	}
	names, err := client.ListDatabaseNames(t.Context(), bson.D{})
	if err != nil || slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "penstock-test-") }) {
		t.Errorf("databases are left behind: %v (%v)", names, err)
	}
}

// A transaction that is left open must not stop the tests that follow.
func TestExternalBackendGivesUpCleaning(t *testing.T) {
	t.Parallel()
	_, variables := served(t)
	settings, err := harness.LoadExternal(environment(variables))
	if err != nil {
		t.Fatal(err)
	}
	settings.CleanTimeout = 200 * time.Millisecond
	external, err := harness.ConnectExternal(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = external.Close() })
	backend, err := external.Open(t.Context(), harness.TopicOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := store(t, variables["PENSTOCK_TEST_MONGODB_URI"])
	models := client.Database(backend.Databases().ReadModels)
	if err := models.CreateCollection(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	session, err := client.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.WithoutCancel(t.Context()))
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	if _, err := models.Collection("orders").InsertOne(mongo.NewSessionContext(t.Context(), session), bson.D{}); err != nil {
		t.Fatal(err)
	}
	if err := backend.Close(); !errors.Is(err, harness.ErrLeftBehind) {
		t.Errorf("closed with %v", err)
	}
}

// Without duplicate detection, every repeated message reaches the topic.
func TestExternalBackendWithoutDuplicateDetection(t *testing.T) {
	t.Parallel()
	_, variables := served(t)
	backend, err := connect(t, variables).Open(t.Context(), harness.TopicOptions{DuplicateDetectionWindow: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	send(t, backend.Bus(), "a/1", "a/1")
	if n, err := backend.Published(); err != nil || n != 2 {
		t.Errorf("%d messages reached the topic (%v), not 2", n, err)
	}
}

// Servers that cannot be used are reported before any test runs.
func TestConnectExternalRefuses(t *testing.T) {
	t.Parallel()
	_, variables := served(t)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(refuses.Close)
	variables["PENSTOCK_TEST_SERVICEBUS_ADMIN_ENDPOINT"] = refuses.URL
	settings, err := harness.LoadExternal(environment(variables))
	if err != nil {
		t.Fatal(err)
	}
	external, err := harness.ConnectExternal(t.Context(), settings)
	if err == nil {
		_ = external.Close()
		t.Fatal("connected without the right to manage")
	}
	if !strings.Contains(err.Error(), "administration API") {
		t.Errorf("says %v", err)
	}
}

func send(t *testing.T, bus harness.Bus, ids ...string) {
	t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(context.WithoutCancel(t.Context())) }()
	sender, err := client.NewSender(bus.Topic, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		aggregate, _, _ := strings.Cut(id, "/")
		message := &azservicebus.Message{
			MessageID: to.Ptr(id), SessionID: to.Ptr(aggregate), Body: []byte("{}"),
			ApplicationProperties: map[string]any{"epoch": int64(3)},
		}
		if err := sender.SendMessage(t.Context(), message, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func store(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client
}
