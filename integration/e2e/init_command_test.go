package e2e_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// TestInitWritesProjectionsThatRun checks that the first file of projections, which the
// projector writes for the events of a store, passes the check and its own tests, which a wrong
// count fails, and fills read models. The command never overwrites a file.
func TestInitWritesProjectionsThatRun(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	opened := func(id string, eventID int64, eventType string, payload bson.D) workload.Event {
		return workload.Event{AggregateID: id, AggregateType: "Account", EventID: eventID, EventType: eventType, Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Payload: payload}
	}
	events := []workload.Event{
		opened("1", 1, "AccountOpened", bson.D{{Key: "owner", Value: "Ada"}, {Key: "limit", Value: int32(5)}}),
		opened("1", 2, "MoneyPaidIn", bson.D{{Key: "cents", Value: int64(250)}}),
		opened("2", 1, "AccountOpened", bson.D{{Key: "owner", Value: "Bob"}, {Key: "vip", Value: true}, {Key: "rate", Value: 1.5}, {Key: "bank", Value: bson.NewObjectID()}, {Key: "limit", Value: nil}}),
	}
	file := filepath.Join(t.TempDir(), "first.yaml")
	backend, err := open(t, harness.TopicOptions{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	databases := backend.Databases()
	env := []string{"MONGODB_URI=" + backend.MongoURI(), "PENSTOCK_EVENTS_DATABASE=" + databases.Events}
	run := func(code int, says string, args ...string) (stdout string) {
		t.Helper()
		got, stdout, stderr := command(t, suite.services.Projector, env, args...)
		if got != code || !strings.Contains(stdout+stderr, says) {
			t.Fatalf("projector %s: status %d, want %d and %q\n%s%s", strings.Join(args, " "), got, code, says, stdout, stderr)
		}
		return stdout
	}
	run(1, "no event was read", "init", "--to="+file)
	client, err := mongo.Connect(options.Client().ApplyURI(backend.MongoURI()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(t.Context()) }()
	if _, err := client.Database(databases.Events).Collection(harness.EventsCollection).InsertMany(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	run(0, "has the projections accounts; their tests are in ", "init", "--to="+file)
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	run(0, "", "check", file)
	run(0, "", "test", filepath.Dir(file))
	wrong := strings.Replace(string(written), `eventCount: "1"`, `eventCount: "2"`, 1)
	err = os.WriteFile(file, []byte(wrong), 0o600)
	run(1, "eventCount: expected", "test", filepath.Dir(file))
	if err = errors.Join(err, os.WriteFile(file, written, 0o600)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(written), "# yaml-language-server: $schema=https://") {
		t.Errorf("the file does not name its schema:\n%s", written)
	}
	if stdout := run(0, "", "init", "--to=-"); stdout != string(written) {
		t.Errorf("printed\n%s\nand written\n%s", stdout, written)
	}
	run(1, "first.yaml exists, and is not overwritten: name another file by --to", "init", "--to="+file)
	run(2, "--sample is 0", "init", "--to=first_test.yaml", "--sample=0")
	run(0, "  MoneyPaidIn:\n    type: object\n    properties:\n      cents: {type: integer}\n", "infer", "3")

	s := newScenarioOver(t, &workload.Workload{Projections: written, Collections: []string{"accountReadModels"}}, backend)
	s.start(1, 1)
	s.await("the read models of the first file", func() bool {
		var document struct {
			EventCount, LastEventID, Cents, Limit int64
			Owner, LastEventType                  string
		}
		err := s.models.Collection("accountReadModels").FindOne(t.Context(), bson.D{{Key: "_id", Value: "1"}}).Decode(&document)
		return err == nil && document.EventCount == 2 && document.LastEventID == 2 && document.Cents == 250 && document.Limit == 5 && document.Owner == "Ada" && document.LastEventType == "MoneyPaidIn"
	})
}
