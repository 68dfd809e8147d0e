package images_test

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// timeout is the timeout for anything that a program does without delay.
const timeout = 90 * time.Second

// clocks converts the event's time to a zone whose offset, 5 h 45 min ahead, is only in a
// time zone file.
const clocks = `projections:
  - name: clocks
    collection: clocks
    aggregateType: Clock
    on:
      ClockReadEvent:
        set: {hour: timestamp.getHours('Asia/Kathmandu'), minute: timestamp.getMinutes('Asia/Kathmandu')}
`

func TestProgramPrintsItsHelpAndVersion(t *testing.T) {
	for _, service := range services {
		t.Run(service, func(t *testing.T) {
			c := newContainer(t, service)
			if code, says := c.run(t, nil, "--help"); code != 0 || !strings.Contains(says, "MONGODB_URI") {
				t.Errorf("help exits %d and says %s", code, says)
			}
			if code, says := c.run(t, nil); code != 2 || !strings.Contains(says, "MONGODB_URI") {
				t.Errorf("a missing configuration exits %d and says %s", code, says)
			}
			_, index := openArchive(t, archivePath(t, service)).images(t)
			version := service + " " + chartVersion(t) + " (" + index.Annotations[labels+"revision"][:12]
			if code, says := c.run(t, nil, "--version"); code != 0 || !strings.HasPrefix(says, version) {
				t.Errorf("the version exits %d and says %s, not %s", code, says, version)
			}
		})
	}
}

func TestStandInsServeAnyAddress(t *testing.T) {
	for _, program := range standIns {
		t.Run(program, func(t *testing.T) {
			c := newContainer(t, program)
			if code, says := c.run(t, nil, "--version"); code != 0 || says != program+" "+chartVersion(t)+"\n" {
				t.Errorf("the version exits %d and says %s", code, says)
			}
			log := c.start(t, []string{strings.ToUpper(program) + "_ADDRESS=:0"})
			await(t, "the connection string", func() bool { return contains(t, log, "\n") })
			text := string(read(t, log))
			port := regexp.MustCompile(`(?:127\.0\.0\.1|localhost|\[::\]|0\.0\.0\.0):(\d+)`).FindStringSubmatch(text)
			if port == nil {
				t.Fatalf("it prints %s", text)
			}
			conn, err := (&net.Dialer{Timeout: timeout}).DialContext(t.Context(), "tcp", "127.0.0.1:"+port[1])
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		})
	}
}

// The chart's init container runs the command in this way.
func TestProjectionsAreCheckedInTheImage(t *testing.T) {
	c := newContainer(t, "projector")
	env := []string{
		"MONGODB_URI=mongodb://nowhere.invalid/?replicaSet=rs0",
		"AZURE_SERVICEBUS_NAMESPACE=nowhere.servicebus.windows.net",
		"AZURE_SERVICEBUS_TOPIC_NAME=events", "AZURE_SERVICEBUS_SUBSCRIPTION_NAME=projector",
		"PENSTOCK_PROJECTIONS=/etc/penstock/projections",
	}
	for projections, want := range map[string]int{clocks: 0, strings.Replace(clocks, "timestamp.", "nobody.", 1): 2} {
		c.write(t, "etc/penstock/projections/clocks.yaml", projections, 0o444)
		if code, says := c.run(t, env, "check"); code != want {
			t.Errorf("the check exits %d, not %d, and says %s", code, want, says)
		}
	}
}

// Both programs do all their work in a read-only root without system certificates, time
// zones, users or a folder for temporary files.
func TestImagesRunThePipeline(t *testing.T) {
	publisher, projector := newContainer(t, "publisher"), newContainer(t, "projector")
	projector.write(t, "etc/penstock/projections/clocks.yaml", clocks, 0o444)
	backend, err := harness.StartEmbedded(harness.EmbeddedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	client, err := mongo.Connect(options.Client().ApplyURI(backend.MongoURI()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	events := client.Database(harness.EventsDatabase).Collection(harness.EventsCollection)
	_, err = events.Indexes().CreateOne(t.Context(), workload.Index())
	if err != nil {
		t.Fatal(err)
	}

	bus := backend.Bus()
	env := []string{
		"MONGODB_URI=" + backend.MongoURI(),
		"AZURE_SERVICEBUS_CONNECTION_STRING=" + bus.ConnectionString, "AZURE_SERVICEBUS_TOPIC_NAME=" + bus.Topic,
		"PENSTOCK_EVENTS_DATABASE=" + harness.EventsDatabase, "PENSTOCK_EVENTS_COLLECTION=" + harness.EventsCollection,
	}
	startReady(t, publisher, append(env, "PENSTOCK_ELECTION=mongodb"))
	startReady(t, projector, append(env,
		"AZURE_SERVICEBUS_SUBSCRIPTION_NAME="+bus.Subscription, "PENSTOCK_PROJECTIONS=/etc/penstock/projections",
		"PENSTOCK_READMODELS_DATABASE="+harness.ReadModelsDatabase))

	_, err = events.InsertOne(t.Context(), workload.Event{
		AggregateID: "tower", AggregateType: "Clock", EventID: 1, EventType: "ClockReadEvent",
		Timestamp: time.Date(2026, time.January, 15, 12, 0, 0, 0, time.UTC), Payload: bson.D{},
	})
	if err != nil {
		t.Fatal(err)
	}
	var clock struct{ Hour, Minute int }
	await(t, "the read model", func() bool {
		found := client.Database(harness.ReadModelsDatabase).Collection("clocks").FindOne(t.Context(), bson.D{{Key: "_id", Value: "tower"}})
		return found.Decode(&clock) == nil
	})
	if clock.Hour != 17 || clock.Minute != 45 {
		t.Errorf("the clock showed %d:%d, not 17:45", clock.Hour, clock.Minute)
	}
}

// startReady starts a program and waits until it reports that it is ready.
func startReady(t *testing.T, c *container, env []string) {
	t.Helper()
	admin, err := proc.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	c.start(t, append(env, "PENSTOCK_ADMIN_ADDRESS="+admin))
	await(t, c.entrypoint[0]+" to be ready", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// await polls until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, timeout)
		}
	}
}
