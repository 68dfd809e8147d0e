package term

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
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
	loaded, err := p.reload(k, func(context.Context) error { return nil })(t.Context(), []publish.Ref{{AggregateID: bson.RawValue{Type: bson.TypeString}, EventID: 1}})
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
	changed := &keyed{document: testkit.Raw(bson.D{{Key: "_id", Value: 1}, {Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: 1}}), from: time.Now().Add(-time.Hour)}
	got := changed.reloaded(t)
	if reasonOf(got.Err) != event.ReasonMissingEventType || got.Event.Document == nil {
		t.Errorf("%v with the document %s, want %s", got.Err, got.Event.Document, event.ReasonMissingEventType)
	}
}
