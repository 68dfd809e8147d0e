package park

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Parked returns the position of each unit, in the order of units.
func (s *Store) Parked(ctx context.Context, units []model.Unit) ([]model.Position, error) {
	found := make(map[Key]model.Position)
	for part := range slices.Chunk(units, maxKeys) {
		keys := make([]Key, len(part))
		for i := range part {
			keys[i] = keyOf(&part[i])
		}
		type marker struct {
			ID      Key        `bson:"_id"`
			EventID int64      `bson:"eventId"`
			Reason  string     `bson:"reason"`
			RetryAt *time.Time `bson:"retryAt"`
		}
		markers, err := mongox.All[marker](ctx, s.collection)(s.collection.Find(ctx, bson.D{{Key: fieldID, Value: bson.D{{Key: "$in", Value: keys}}}},
			options.Find().SetBatchSize(maxKeys).SetProjection(bson.D{{Key: fieldEventID, Value: 1}, {Key: fieldRetryAt, Value: 1}, {Key: fieldReason, Value: 1}})))
		if err != nil {
			return nil, fmt.Errorf("look up parked aggregates: %w", err)
		}
		for _, m := range markers {
			found[m.ID] = model.Position{EventID: m.EventID, Resumes: m.RetryAt != nil, Reason: m.Reason}
		}
	}
	positions := make([]model.Position, len(units))
	for i := range units {
		at, ok := found[keyOf(&units[i])]
		if !ok {
			at.EventID = units[i].NoEvent()
		}
		positions[i] = at
	}
	return positions, nil
}
