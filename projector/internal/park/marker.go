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

// maxErrorBytes bounds the text in a marker.
const maxErrorBytes = 4 << 10

// maxUpserts bounds how often markers are written again because another process
// created one of them at the same moment.
const maxUpserts = 3

// Park stores markers. Where one is there already, its head only rises, and
//
//   - a marker that resumes takes the place of one that does not, since nobody could
//     look at the read model: resuming finds out whether the old reason still holds;
//   - one that resumes stays as it is if the new one resumes, too;
//   - one that does not resume takes the place of one that does, and of one of another
//     event, since all before the new event is applied.
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
	return nil
}

func (s *Store) park(ctx context.Context, markers []model.Marker) error {
	replacing := make([]mongo.WriteModel, len(markers))
	creating := make([]mongo.WriteModel, len(markers))
	now := time.Now()
	for i := range markers {
		m := &markers[i]
		set, unset := s.content(m, now)
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

// replaceable matches the marker that m takes the place of.
func replaceable(m *model.Marker) bson.D {
	resumes := bson.D{{Key: fieldRetryAt, Value: bson.D{{Key: "$exists", Value: true}}}}
	if m.Resumes {
		return bson.D{{Key: fieldID, Value: keyOf(&m.Unit)}, {Key: fieldRetryAt, Value: bson.D{{Key: "$exists", Value: false}}}}
	}
	another := bson.D{{Key: fieldEventID, Value: bson.D{{Key: "$ne", Value: m.EventID}}}}
	return bson.D{{Key: fieldID, Value: keyOf(&m.Unit)}, {Key: "$or", Value: bson.A{another, resumes}}}
}

// content is what a new marker holds, but for its head, and the fields of an old one
// that it does not have.
func (s *Store) content(m *model.Marker, now time.Time) (set, unset bson.D) {
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
		return append(set, bson.E{Key: fieldRetryAt, Value: now.Add(s.retryAfter(0))}, bson.E{Key: fieldAttempts, Value: 0}), nil
	}
	return set, bson.D{{Key: fieldRetryAt, Value: ""}, {Key: fieldAttempts, Value: ""}, {Key: fieldClaim, Value: ""}}
}

// Advance notes that the events of parked aggregates up to their heads were
// acknowledged without being applied. It is [ErrNotParked] where one of the markers is
// not there: then those events must not be acknowledged. The other heads have risen.
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

// Forget deletes the markers of a generation that is no longer written, and gives how many
// there were.
func (s *Store) Forget(ctx context.Context, g Served) (int64, error) {
	result, err := s.collection.DeleteMany(ctx, ofGeneration(g))
	if err != nil {
		return 0, fmt.Errorf("delete the markers of generation %d of %s: %w", g.Generation, g.Projection, err)
	}
	s.notify()
	return result.DeletedCount, nil
}

// clip cuts a text to the bytes that a marker has room for.
func clip(text string) string {
	if len(text) > maxErrorBytes {
		text = text[:maxErrorBytes]
	}
	return strings.ToValidUTF8(text, "")
}
