package park

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// maxErrorBytes bounds the error text in a marker.
const maxErrorBytes = 4 << 10

// maxUpserts bounds the attempts to write markers while other processes create the same
// ones.
const maxUpserts = 3

// Park stores markers. If a unit already has a marker, its head only rises, and
//
//   - a marker that resumes replaces a permanent one: the read model could not be read,
//     and resuming finds out whether the old reason still applies;
//   - a marker that resumes is kept if the new one resumes too;
//   - a permanent marker replaces one that resumes, and a permanent one of another event,
//     because all events before the new one are applied.
//
// An error means that some of the markers may not be stored. Storing them again
// changes nothing.
func (s *Store) Park(ctx context.Context, markers []model.Marker) error {
	for part := range slices.Chunk(markers, maxKeys) {
		if err := s.park(ctx, part); err != nil {
			return fmt.Errorf("park %d aggregates, such as %s in %s: %w", len(part), part[0].AggregateID, part[0].Projection, err)
		}
	}
	s.notify()
	if slices.ContainsFunc(markers, func(m model.Marker) bool { return m.Resumes }) {
		signal(s.soon)
	}
	return nil
}

func (s *Store) park(ctx context.Context, markers []model.Marker) error {
	replacing := make([]mongo.WriteModel, len(markers))
	creating := make([]mongo.WriteModel, len(markers))
	now := time.Now()
	for i := range markers {
		m := &markers[i]
		set, unset := content(m, now)
		change := bson.D{{Key: "$set", Value: set}}
		if len(unset) > 0 {
			change = append(change, bson.E{Key: "$unset", Value: unset})
		}
		replacing[i] = mongo.NewUpdateOneModel().SetFilter(replaceable(m)).SetUpdate(change)
		creating[i] = mongo.NewUpdateOneModel().SetUpsert(true).
			SetFilter(bson.D{{Key: fieldID, Value: keyOf(&m.Unit)}}).
			SetUpdate(bson.D{{Key: "$setOnInsert", Value: set}, {Key: "$max", Value: bson.D{{Key: fieldHead, Value: m.Head}}}})
	}
	unordered := options.BulkWrite().SetOrdered(false)
	if _, err := s.collection.BulkWrite(ctx, replacing, unordered); err != nil {
		return err
	}
	var err error
	for range maxUpserts {
		if _, err = s.collection.BulkWrite(ctx, creating, unordered); !mongox.DuplicateKeyOnID(err) {
			return err
		}
	}
	return err
}

// replaceable matches the marker that m replaces.
func replaceable(m *model.Marker) bson.D {
	resumes := bson.D{{Key: fieldRetryAt, Value: bson.D{{Key: "$exists", Value: true}}}}
	if m.Resumes {
		return bson.D{{Key: fieldID, Value: keyOf(&m.Unit)}, {Key: fieldRetryAt, Value: bson.D{{Key: "$exists", Value: false}}}}
	}
	another := bson.D{{Key: fieldEventID, Value: bson.D{{Key: "$ne", Value: m.EventID}}}}
	return bson.D{{Key: fieldID, Value: keyOf(&m.Unit)}, {Key: "$or", Value: bson.A{another, resumes}}}
}

// content returns the fields of a new marker without its head, and the fields of an old
// marker to remove.
func content(m *model.Marker, now time.Time) (set, unset bson.D) {
	set = bson.D{
		{Key: fieldReason, Value: m.Reason},
		{Key: fieldError, Value: clip(m.Error)},
		{Key: fieldEventID, Value: m.EventID},
		{Key: fieldMessageID, Value: event.MessageID(m.AggregateID, m.EventID)},
		{Key: fieldParkedAt, Value: now},
	}
	if !m.RawAggregateID.IsZero() {
		set = append(set, bson.E{Key: fieldRawAggregateID, Value: m.RawAggregateID})
	}
	if m.Resumes {
		attempts := 0
		if m.Seldom {
			attempts = seldomAttempts
		}
		return append(set, bson.E{Key: fieldRetryAt, Value: now.Add(retryAfter(attempts, m.Seldom))}, bson.E{Key: fieldAttempts, Value: attempts}), nil
	}
	return set, unsetAttempts()
}

// Advance records that the events of parked aggregates up to their heads are acknowledged
// without being applied. It returns [ErrNotParked] if one of the markers is missing: then
// the caller must not acknowledge those events. The heads of the other markers have risen
// nevertheless.
func (s *Store) Advance(ctx context.Context, heads []model.Head) error {
	for part := range slices.Chunk(heads, maxKeys) {
		rises := make([]mongo.WriteModel, len(part))
		for i, h := range part {
			rises[i] = mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: fieldID, Value: keyOf(&h.Unit)}}).
				SetUpdate(bson.D{{Key: "$max", Value: bson.D{{Key: fieldHead, Value: h.EventID}}}})
		}
		result, err := s.collection.BulkWrite(ctx, rises, options.BulkWrite().SetOrdered(false))
		if err != nil {
			return fmt.Errorf("advance %d parked aggregates, such as %s in %s: %w", len(part), part[0].AggregateID, part[0].Projection, err)
		}
		if missing := int64(len(part)) - result.MatchedCount; missing > 0 {
			return fmt.Errorf("advance %d parked aggregates, of which %d have no marker: %w", len(part), missing, ErrNotParked)
		}
	}
	return nil
}

// Forget deletes the markers of a generation that is no longer written, and returns their
// number. It works page by page, because the server goes on with a delete whose client is gone.
func (s *Store) Forget(ctx context.Context, g Served) (total int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("delete the markers of generation %d of %s: %w", g.Generation, g.Projection, err)
		}
	}()
	for {
		page, err := mongox.All[bson.Raw](ctx, s.collection)(s.collection.Find(ctx, ofGeneration(g),
			options.Find().SetProjection(bson.D{{Key: fieldID, Value: 1}}).SetLimit(maxKeys)))
		if err != nil || len(page) == 0 {
			return total, err
		}
		ids := make(bson.A, len(page))
		for i, marker := range page {
			ids[i] = marker.Lookup(fieldID)
		}
		result, err := s.collection.DeleteMany(ctx, bson.D{{Key: fieldID, Value: bson.D{{Key: "$in", Value: ids}}}})
		if err != nil {
			return total, err
		}
		total += result.DeletedCount
		s.notify()
	}
}

// clip cuts a text to at most maxErrorBytes.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxErrorBytes)], "") }
