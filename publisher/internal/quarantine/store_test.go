package quarantine_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
)

// fakeCollection applies the upserts of the quarantine to documents in memory. The stand-in
// mongoemu cannot replace it: the waits between retries run in virtual time, in which
// sockets do not work.
type fakeCollection struct {
	faults  []error
	records map[string]bson.M
	writes  int
}

func (f *fakeCollection) BulkWrite(ctx context.Context, models []mongo.WriteModel, _ ...options.Lister[options.BulkWriteOptions]) (*mongo.BulkWriteResult, error) {
	f.writes++
	if err := mongoxtest.CheckNoDeadline(ctx); err != nil {
		return nil, err
	}
	if len(f.faults) > 0 {
		err := f.faults[0]
		f.faults = f.faults[1:]
		return nil, err
	}
	if f.records == nil {
		f.records = map[string]bson.M{}
	}
	for _, model := range models {
		update, ok := model.(*mongo.UpdateOneModel)
		if !ok || update.Upsert == nil || !*update.Upsert {
			return nil, errors.New("not an upsert")
		}
		key, err := bson.MarshalExtJSON(update.Filter, true, false)
		if err != nil {
			return nil, err
		}
		raw, err := bson.Marshal(update.Update)
		if err != nil {
			return nil, err
		}
		var u struct {
			SetOnInsert bson.M `bson:"$setOnInsert"`
			Set         bson.M `bson:"$set"`
			Inc         bson.M `bson:"$inc"`
		}
		if err := bson.Unmarshal(raw, &u); err != nil {
			return nil, err
		}
		record, there := f.records[string(key)]
		if !there {
			record = u.SetOnInsert
			record["seen"] = int64(0)
			f.records[string(key)] = record
		}
		for k, v := range u.Set {
			record[k] = v
		}
		record["seen"] = record["seen"].(int64) + u.Inc["seen"].(int64)
	}
	return &mongo.BulkWriteResult{}, nil
}

func id(t *testing.T, v any) bson.RawValue {
	t.Helper()
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return bson.RawValue{Type: kind, Value: data}
}

func document(t *testing.T, d bson.D) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestAnEventThatIsReadAgainIsTheSameRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c fakeCollection
		registry := prometheus.NewRegistry()
		s := quarantine.NewStore(&c, "events", quarantine.Options{Registerer: registry})
		entry := quarantine.Entry{
			DocumentID: id(t, "e-1"),
			Reason:     event.ReasonMissingEventID, Field: "eventId", Detail: "absent",
			Keys:  event.Keys{AggregateID: "user-7"},
			Token: document(t, bson.D{{Key: "_data", Value: "82"}}),
			Event: document(t, bson.D{{Key: "_id", Value: "e-1"}, {Key: "aggregateId", Value: "user-7"}}),
		}
		began := time.Now()
		if err := s.Put(t.Context(), 3, entry, quarantine.Entry{DocumentID: id(t, int32(2)), Reason: event.ReasonTooLarge}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		if err := s.Put(t.Context(), 4, entry); err != nil {
			t.Fatal(err)
		}
		if len(c.records) != 2 {
			t.Fatalf("%d records: %v", len(c.records), c.records)
		}
		record := c.records[`{"_id":{"stream":"events","document":"e-1"}}`]
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
		other := c.records[`{"_id":{"stream":"events","document":{"$numberInt":"2"}}}`]
		if other["eventOmitted"] != true || other["event"] != nil || other["seen"] != int64(1) {
			t.Errorf("record without its event is %v", other)
		}
		want := `
# HELP penstock_publisher_quarantined_total Events that were put into the quarantine instead of being published, by reason; an event that is read again counts again.
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

func TestAnEventTooLargeForARecordIsLeftOut(t *testing.T) {
	t.Parallel()
	var c fakeCollection
	s := quarantine.NewStore(&c, "events", quarantine.Options{})
	big := document(t, bson.D{{Key: "payload", Value: strings.Repeat("x", 15<<20)}})
	if err := s.Put(t.Context(), 1, quarantine.Entry{DocumentID: id(t, "e"), Reason: event.ReasonTooLarge, Event: big}); err != nil {
		t.Fatal(err)
	}
	if record := c.records[`{"_id":{"stream":"events","document":"e"}}`]; record["eventOmitted"] != true || record["event"] != nil {
		t.Errorf("record has the event")
	}
}

func TestTriesAgainWhatPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fakeCollection{faults: []error{
			mongo.CommandError{Code: 189, Name: "PrimarySteppedDown"}, io.EOF, context.DeadlineExceeded,
		}}
		s := quarantine.NewStore(&c, "events", quarantine.Options{})
		if err := s.Put(t.Context(), 1, quarantine.Entry{DocumentID: id(t, "e")}); err != nil {
			t.Fatal(err)
		}
		if c.writes != 4 || len(c.records) != 1 {
			t.Errorf("%d writes, %d records", c.writes, len(c.records))
		}

		c.faults = []error{mongo.CommandError{Code: 13, Message: "not authorized"}}
		if err := s.Put(t.Context(), 1, quarantine.Entry{DocumentID: id(t, "e")}); err == nil || !strings.Contains(err.Error(), "not authorized") {
			t.Errorf("ended with %v", err)
		}

		for range 1000 {
			c.faults = append(c.faults, io.EOF)
		}
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(stop) })
		if err := s.Put(ctx, 1, quarantine.Entry{DocumentID: id(t, "e")}); !errors.Is(err, stop) {
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
