package app

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// reloadTimeout bounds one read of events that were dropped from memory.
const reloadTimeout = 30 * time.Second

// documents is the part of an [eventstore.Reader] that reads single events.
type documents interface {
	Documents(ctx context.Context, keys []eventstore.Key, since bson.Timestamp) ([]bson.Raw, error)
	OperationTime(ctx context.Context) (bson.Timestamp, error)
}

var _ documents = (*eventstore.Reader)(nil)

// reload returns the function that reads events again for a dispatcher. The pump has read
// all of them before, so the read must see what the pump has seen.
func (p *pump) reload(store documents) func(context.Context, []publish.Ref) ([]event.Event, error) {
	return func(ctx context.Context, refs []publish.Ref) ([]event.Event, error) {
		ctx, cancel := mongox.Timeout(ctx, reloadTimeout)
		defer cancel()
		keys := make([]eventstore.Key, len(refs))
		for i, ref := range refs {
			keys[i] = eventstore.Key{AggregateID: ref.AggregateID, EventID: ref.EventID}
		}
		found, err := store.Documents(ctx, keys, p.seen())
		if err == nil && slices.ContainsFunc(found, absent) {
			// A scan can have seen an event that is newer than any time that it noted.
			var now bson.Timestamp
			if now, err = store.OperationTime(ctx); err == nil {
				found, err = store.Documents(ctx, keys, later(now, p.seen()))
			}
		}
		if err != nil {
			return nil, mongox.Explain(ctx, err)
		}
		events := make([]event.Event, len(refs))
		for i, document := range found {
			if absent(document) {
				continue
			}
			if ev, err := p.reader.Read(document); err == nil {
				events[i] = ev
			}
		}
		return events, nil
	}
}

func absent(document bson.Raw) bool { return document == nil }

// saw records the cluster time of the newest event that was read.
func (p *pump) saw(batch watch.Batch) {
	if n := len(batch.Inserts); n > 0 {
		at := batch.Inserts[n-1].Time
		p.newest.Store(uint64(at.T)<<32 | uint64(at.I))
	}
}

func (p *pump) seen() bson.Timestamp {
	at := p.newest.Load()
	return bson.Timestamp{T: uint32(at >> 32), I: uint32(at)}
}
