package simulation

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/virtual"
)

// correct corrects events in the event store, as a person does: poison events, and those that
// the quarantine lists. all says that it corrects each of them instead of one of each kind. It
// reports whether there was one.
func (w *World) correct(ctx context.Context, all bool) bool {
	found := 0
	poison, err := w.events().Find(ctx, bson.D{{Key: "eventType", Value: "Poison"}, {Key: "payload.amount", Value: bson.D{{Key: "$type", Value: "string"}}}})
	if err != nil {
		return false
	}
	defer func() { _ = poison.Close(ctx) }()
	for (all || found == 0) && poison.Next(ctx) {
		w.change(ctx, poison.Current.Lookup("_id"), bson.D{{Key: "payload.amount", Value: int64(11)}})
		found++
	}
	for _, record := range w.state("quarantine") {
		if text(record, "_id", "stream") != w.named("events") || text(record, "reason") != "missing_event_id" {
			continue
		}
		w.change(ctx, record.Lookup("_id", "document"), bson.D{
			{Key: "eventId", Value: w.plan.first()}, {Key: "aggregateType", Value: "Account"}, {Key: "timestamp", Value: time.Now()},
		})
		found++
		if !all {
			break
		}
	}
	return found > 0
}

// change repeats an update of an event until MongoDB acknowledges it, or until the event has gone
// since it was listed.
func (w *World) change(ctx context.Context, id bson.RawValue, set bson.D) {
	ctx = context.WithoutCancel(ctx)
	var ev storedEvent
	after := options.FindOneAndUpdate().SetReturnDocument(options.After)
	gone := false
	until(ctx, func() error {
		w.writing.RLock()
		defer w.writing.RUnlock()
		err := w.events().FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: set}}, after).Decode(&ev)
		if gone = errors.Is(err, mongo.ErrNoDocuments); gone {
			return nil
		}
		return err
	})
	if gone {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corrected[ev.AggregateID] = append(w.corrected[ev.AggregateID], ev.EventID)
}

// bringBack retries corrected events, and republishes these and those that the topic has refused.
func (w *World) bringBack(ctx context.Context) {
	if len(w.corrected) > 0 {
		_ = w.command(ctx, virtual.Projector, "parked", "retry", "--wait", "0s", "--yes", "--why", "corrected")
	}
	_ = w.command(ctx, virtual.Publisher, "republish", "--quarantine", "--yes", "--why", "corrected")
}
