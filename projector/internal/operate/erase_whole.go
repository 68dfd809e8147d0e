package operate

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// whole refuses an aggregate of which the application has deleted some events and not all: a message
// of a deleted event that is still under way would bring it back, and no fold could say what the read
// model should be. Documents that break the contract count by their ids, because they are there.
func (r *erasing) whole(ctx context.Context) error {
	if r.raw.Type == 0 {
		return nil
	}
	// The watermarks come first: a projector applies new events meanwhile.
	targets, err := r.targets(ctx)
	if err != nil {
		return err
	}
	units := r.units(targets)
	watermarks, err := readmodel.Watermarks(ctx, r.s.ReadModels, units)
	if err != nil {
		return err
	}
	has, err := r.ids(ctx)
	if err != nil || has.unknown {
		return err
	}
	for i := range targets {
		begins := units[i].FirstEvent()
		if has.first != nil {
			begins = targets[i].Projection.BeginsAt(has.first, begins)
		}
		lacks := has.gap
		switch {
		case has.from > begins:
			lacks = begins
		case lacks < 0 && watermarks[i] > has.to && watermarks[i] != model.Erased:
			lacks = has.to + 1
		}
		if lacks >= 0 {
			return fmt.Errorf("the event store has only some events of the aggregate: it lacks event %d, for example. Delete all of its events, or put the missing ones back; then erase it", lacks)
		}
	}
	return nil
}

// idsOf says which events an aggregate has.
type idsOf struct {
	// first is the first event, if it can be read. from and to are the lowest and the highest id.
	first    *event.Event
	from, to int64
	// gap is the first id that is missing between them; -1 if there is none.
	gap int64
	// unknown says that a document has no id, so that nobody knows which one is missing.
	unknown bool
}

// ids reads the ids of the aggregate's events.
func (r *erasing) ids(ctx context.Context) (idsOf, error) {
	has, reader := idsOf{gap: -1, from: -1}, event.NewReader(r.fields)
	cursor, err := r.s.Events.Find(ctx, bson.D{{Key: r.fields.AggregateID, Value: r.raw}}, options.Find().SetSort(bson.D{{Key: r.fields.EventID, Value: 1}}))
	if err != nil {
		return has, fmt.Errorf("read the ids of the events: %w", err)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for cursor.Next(ctx) {
		id, ok := cursor.Current.Lookup(r.fields.EventID).AsInt64OK()
		switch {
		case !ok:
			has.unknown = true
			continue
		case has.from < 0:
			has.from = id
			if ev, err := reader.Read(append(bson.Raw(nil), cursor.Current...)); err == nil {
				has.first = &ev
			}
		case has.gap < 0 && id > has.to+1:
			has.gap = has.to + 1
		}
		has.to = id
	}
	return has, cursor.Err()
}
