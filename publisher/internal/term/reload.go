package term

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

const (
	// reloadTimeout bounds one read of events that were dropped from memory.
	reloadTimeout = 30 * time.Second
	// absentFor is the time between the two reads that must both miss an event before it
	// counts as deleted. Such an event is not published any more.
	absentFor = 5 * time.Second
)

// documents is the part of an [eventstore.Reader] that reads single events.
type documents interface {
	Documents(ctx context.Context, keys []eventstore.Key, since bson.Timestamp) ([]bson.Raw, error)
}

var _ documents = (*eventstore.Reader)(nil)

// reload returns the function that reads events again for a dispatcher. The pump has read
// all of them before, so the read must see what the pump has seen. named fails if the
// collection that the pump reads has lost its name: then an absent event is not lost.
func (p *pump) reload(store documents, named func(context.Context) error) func(context.Context, []publish.Ref) ([]publish.Loaded, error) {
	return func(ctx context.Context, refs []publish.Ref) ([]publish.Loaded, error) {
		keys := make([]eventstore.Key, len(refs))
		for i, ref := range refs {
			keys[i] = eventstore.Key{AggregateID: ref.AggregateID, EventID: ref.EventID}
		}
		found, err := p.documents(ctx, store, keys)
		if err == nil && slices.ContainsFunc(found, absent) {
			if err = poll.Wait(ctx, absentFor); err == nil {
				found, err = p.documents(ctx, store, keys)
			}
			if err == nil && slices.ContainsFunc(found, absent) {
				err = named(ctx)
			}
		}
		if err != nil {
			return nil, err
		}
		events := make([]publish.Loaded, len(refs))
		for i, document := range found {
			if absent(document) {
				events[i].Err = &event.ContractError{Reason: event.ReasonLost, Detail: "the event store no longer has the event, which waited for the topic"}
				continue
			}
			events[i].Event, events[i].Err = p.reader.Read(document)
		}
		return events, nil
	}
}

func (p *pump) documents(ctx context.Context, store documents, keys []eventstore.Key) ([]bson.Raw, error) {
	ctx, cancel := mongox.Timeout(ctx, reloadTimeout)
	defer cancel()
	found, err := store.Documents(ctx, keys, p.seen())
	return found, mongox.Explain(ctx, err)
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
