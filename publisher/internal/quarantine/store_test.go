package quarantine_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
)

// server is the MongoDB stand-in of this package's tests.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// records is the collection quarantine of a database of its own.
type records struct {
	*mongotest.Collection
	// faults are the errors of the next writes.
	faults []error
	writes int
}

func newRecords(t *testing.T) *records {
	t.Helper()
	r := &records{Collection: server.Collection(server.Database(t).Collection(quarantine.CollectionName))}
	r.Before = func(context.Context, string) error {
		r.writes++
		if len(r.faults) == 0 {
			return nil
		}
		err := r.faults[0]
		r.faults = r.faults[1:]
		return err
	}
	return r
}

// stored returns the records by their _id, as Extended JSON.
func (r *records) stored(t *testing.T) map[string]bson.M {
	t.Helper()
	documents, err := r.Documents()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bson.M{}
	for _, document := range documents {
		record := bson.M{}
		if err := bson.Unmarshal(document, &record); err != nil {
			t.Fatal(err)
		}
		key, err := bson.MarshalExtJSON(bson.D{{Key: "_id", Value: document.Lookup("_id")}}, true, false)
		if err != nil {
			t.Fatal(err)
		}
		found[string(key)] = record
	}
	return found
}

func TestRepeatedEventHasOneRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newRecords(t)
		registry := prometheus.NewRegistry()
		s := quarantine.NewStore(c, "events", quarantine.Options{Registerer: registry})
		entry := quarantine.Entry{
			DocumentID: testkit.Value("e-1"),
			Reason:     event.ReasonMissingEventID, Field: "eventId", Detail: "absent",
			Keys:  event.Keys{AggregateID: "user-7"},
			Token: testkit.Raw(bson.D{{Key: "_data", Value: "82"}}),
			Event: testkit.Raw(bson.D{{Key: "_id", Value: "e-1"}, {Key: "aggregateId", Value: "user-7"}}),
		}
		began := time.Now()
		if err := s.Put(t.Context(), 3, entry, quarantine.Entry{DocumentID: testkit.Value(int32(2)), Reason: event.ReasonTooLarge}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		if err := s.Put(t.Context(), 4, entry); err != nil {
			t.Fatal(err)
		}
		stored := c.stored(t)
		if len(stored) != 2 {
			t.Fatalf("%d records: %v", len(stored), stored)
		}
		record := stored[`{"_id":{"stream":"events","document":"e-1"}}`]
		for key, want := range map[string]any{
			"reason": "missing_event_id", "field": "eventId", "detail": "absent", "aggregateId": "user-7",
			"epoch": int64(4), "seen": int64(2),
			"firstSeen": bson.NewDateTimeFromTime(began), "lastSeen": bson.NewDateTimeFromTime(began.Add(time.Hour)),
		} {
			if record[key] != want {
				t.Errorf("%s is %v, want %v", key, record[key], want)
			}
		}
		if record["event"] == nil || record["token"] == nil || record["eventOmitted"] != nil {
			t.Errorf("record is %v", record)
		}
		other := stored[`{"_id":{"stream":"events","document":{"$numberInt":"2"}}}`]
		if other["eventOmitted"] != true || other["event"] != nil || other["seen"] != int64(1) {
			t.Errorf("record without its event is %v", other)
		}
		want := `
# HELP penstock_publisher_quarantined_total Events that were put into the quarantine instead of being published, by reason: what the event lacks or has wrong, too_large or refused (by the topic). An event that is read again counts again.
# TYPE penstock_publisher_quarantined_total counter
penstock_publisher_quarantined_total{reason="malformed"} 0
penstock_publisher_quarantined_total{reason="missing_aggregate_id"} 0
penstock_publisher_quarantined_total{reason="missing_event_id"} 2
penstock_publisher_quarantined_total{reason="missing_event_type"} 0
penstock_publisher_quarantined_total{reason="out_of_range"} 0
penstock_publisher_quarantined_total{reason="refused"} 0
penstock_publisher_quarantined_total{reason="too_large"} 1
penstock_publisher_quarantined_total{reason="wrong_type"} 0
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	})
}

func TestRecordOfALargeEventOmitsTheEvent(t *testing.T) {
	t.Parallel()
	c := newRecords(t)
	s := quarantine.NewStore(c, "events", quarantine.Options{})
	big := testkit.Raw(bson.D{{Key: "payload", Value: strings.Repeat("x", 15<<20)}})
	if err := s.Put(t.Context(), 1, quarantine.Entry{DocumentID: testkit.Value("e"), Reason: event.ReasonTooLarge, Event: big}); err != nil {
		t.Fatal(err)
	}
	if record := c.stored(t)[`{"_id":{"stream":"events","document":"e"}}`]; record["eventOmitted"] != true || record["event"] != nil {
		t.Errorf("record has the event")
	}
}

// A record that the server always refuses would end every term at the same event.
func TestRecordThatIsRefusedIsStoredWithoutItsEvent(t *testing.T) {
	t.Parallel()
	c := newRecords(t)
	deep := bson.D{{Key: "innermost", Value: true}}
	for range 179 {
		deep = bson.D{{Key: "deep", Value: deep}}
	}
	s := quarantine.NewStore(c, "events", quarantine.Options{})
	entries := []quarantine.Entry{
		{DocumentID: testkit.Value("flat"), Reason: event.ReasonMissingEventType, Event: testkit.Raw(bson.D{{Key: "flat", Value: true}})},
		{DocumentID: testkit.Value("deep"), Reason: event.ReasonMissingEventType, Event: testkit.Raw(deep)},
	}
	if err := s.Put(t.Context(), 1, entries...); err != nil {
		t.Fatal(err)
	}
	if entries[1].Event == nil {
		t.Error("the caller's entry was changed")
	}
	stored := c.stored(t)
	if flat := stored[`{"_id":{"stream":"events","document":"flat"}}`]; flat["event"] == nil || flat["eventOmitted"] != nil {
		t.Errorf("the other record is %v", flat)
	}
	if deep := stored[`{"_id":{"stream":"events","document":"deep"}}`]; deep["event"] != nil || deep["eventOmitted"] != true || deep["reason"] != "missing_event_type" {
		t.Errorf("the refused record is %v", deep)
	}

	refusal := mongo.BulkWriteException{WriteErrors: []mongo.BulkWriteError{{WriteError: mongo.WriteError{Code: 121, Message: "Document failed validation"}}}}
	c.faults = []error{refusal, refusal}
	if err := s.Put(t.Context(), 1, entries...); err == nil || !strings.Contains(err.Error(), "failed validation") {
		t.Errorf("a record that is refused without its event too: %v", err)
	}
}

func TestTransientErrorsAreRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newRecords(t)
		c.faults = []error{mongo.CommandError{Code: 189, Name: "PrimarySteppedDown"}, io.EOF, context.DeadlineExceeded}
		s := quarantine.NewStore(c, "events", quarantine.Options{})
		if err := s.Put(t.Context(), 1, quarantine.Entry{DocumentID: testkit.Value("e")}); err != nil {
			t.Fatal(err)
		}
		if stored := c.stored(t); c.writes != 4 || len(stored) != 1 {
			t.Errorf("%d writes, %d records", c.writes, len(stored))
		}

		c.faults = []error{mongo.CommandError{Code: 13, Message: "not authorized"}}
		if err := s.Put(t.Context(), 1, quarantine.Entry{DocumentID: testkit.Value("e")}); err == nil ||
			!strings.Contains(err.Error(), "not authorized") || !strings.Contains(err.Error(), "grant the user readWrite") {
			t.Errorf("ended with %v", err)
		}

		for range 1000 {
			c.faults = append(c.faults, io.EOF)
		}
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(stop) })
		if err := s.Put(ctx, 1, quarantine.Entry{DocumentID: testkit.Value("e")}); !errors.Is(err, stop) {
			t.Errorf("ended with %v", err)
		}
		if err := s.Put(t.Context(), 1); err != nil {
			t.Errorf("nothing to put: %v", err)
		}
	})
}

func TestCause(t *testing.T) {
	t.Parallel()
	reason, field, detail := quarantine.Cause(&event.ContractError{Reason: event.ReasonWrongType, Field: "eventId", Detail: "string"})
	if reason != event.ReasonWrongType || field != "eventId" || detail != "string" {
		t.Errorf("%s %s %s", reason, field, detail)
	}
	if reason, _, detail := quarantine.Cause(errors.New("odd")); reason != event.ReasonMalformed || detail != "odd" {
		t.Errorf("%s %s", reason, detail)
	}
}
