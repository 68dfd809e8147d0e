package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
)

// keyed is an event store with one event, which it shows from a time on.
type keyed struct {
	document bson.Raw
	from     time.Time
}

func (k *keyed) Documents(_ context.Context, keys []eventstore.Key, _ bson.Timestamp) ([]bson.Raw, error) {
	found := make([]bson.Raw, len(keys))
	if !k.from.IsZero() && !time.Now().Before(k.from) {
		found[0] = k.document
	}
	return found, nil
}

// reloaded reads the event of the store again.
func (k *keyed) reloaded(t *testing.T) publish.Loaded {
	t.Helper()
	p := newPump(t, newQuarantined(t), func(publish.Item) {})
	loaded, err := p.reload(k)(t.Context(), []publish.Ref{{AggregateID: bson.RawValue{Type: bson.TypeString}, EventID: 1}})
	if err != nil || len(loaded) != 1 {
		t.Fatalf("loaded %v: %v", loaded, err)
	}
	return loaded[0]
}

func reasonOf(err error) event.Reason {
	if contract, ok := errors.AsType[*event.ContractError](err); ok {
		return contract.Reason
	}
	return ""
}

// TestEventIsLostOnlyAfterASecondLook: two reads just after an election can both miss it.
func TestEventIsLostOnlyAfterASecondLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := &keyed{document: good(1).Document, from: time.Now().Add(3 * time.Second)}
		if got := late.reloaded(t); got.Err != nil || got.Event.EventID != 1 {
			t.Errorf("an event that appears after 3 s: %v", got.Err)
		}
		deleted := &keyed{}
		if got := deleted.reloaded(t); reasonOf(got.Err) != event.ReasonLost {
			t.Errorf("an event that was deleted: %v", got.Err)
		}
	})
}

// TestEventThatWasChangedIsNotLost: an event that can no longer be read has the reason for
// that, and its document.
func TestEventThatWasChangedIsNotLost(t *testing.T) {
	t.Parallel()
	changed := &keyed{document: mustRaw(bson.D{{Key: "_id", Value: 1}, {Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: 1}}), from: time.Now().Add(-time.Hour)}
	got := changed.reloaded(t)
	if reasonOf(got.Err) != event.ReasonMissingEventType || got.Event.Document == nil {
		t.Errorf("%v with the document %s, want %s", got.Err, got.Event.Document, event.ReasonMissingEventType)
	}
}

// TestLostEventIsFoundByItsKeys: the record of a lost event does not have the _id, because
// the event was not there to be read.
func TestLostEventIsFoundByItsKeys(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	s := &stores{events: db.Collection("events"), state: db}
	aggregate := bson.NewObjectID()
	events, err := newRereader(s, event.DefaultFields())
	if err != nil {
		t.Fatal(err)
	}
	lost := &event.ContractError{Reason: event.ReasonLost}
	entry := entryOf(&event.Event{Keys: event.Keys{AggregateID: aggregate.Hex(), EventID: 2}}, lost, nil)
	record := quarantine.Record{DocumentID: entry.DocumentID, Reason: entry.Reason, AggregateID: entry.Keys.AggregateID, EventID: entry.Keys.EventID}
	if _, why, err := events.read(t.Context(), record); err != nil || !errors.Is(why, quarantine.ErrGone) {
		t.Errorf("while it is gone: %v, %v", why, err)
	}
	for id := range int64(3) {
		_, err := s.events.InsertOne(t.Context(), bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: id + 1}, {Key: "eventType", Value: "T"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	ev, why, err := events.read(t.Context(), record)
	if err != nil || why != nil || ev.EventID != 2 || ev.AggregateID != aggregate.Hex() {
		t.Errorf("after it was restored: %v, %v, %v", ev.Keys, why, err)
	}
}
