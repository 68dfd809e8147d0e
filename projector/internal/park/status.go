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

// Status says at which event a unit is parked, and why.
type Status struct {
	model.Position
	// Reason is empty if the unit is not parked.
	Reason string
}

// Statuses returns the status of each unit, in the order of units.
func (s *Store) Statuses(ctx context.Context, units []model.Unit) ([]Status, error) {
	found := make(map[key]Status)
	for part := range slices.Chunk(units, maxKeys) {
		keys := make([]key, len(part))
		for i := range part {
			keys[i] = keyOf(&part[i])
		}
		type marker struct {
			ID      key        `bson:"_id"`
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
			found[m.ID] = Status{Position: model.Position{EventID: m.EventID, Resumes: m.RetryAt != nil}, Reason: m.Reason}
		}
	}
	statuses := make([]Status, len(units))
	for i := range units {
		status, ok := found[keyOf(&units[i])]
		if !ok {
			status.EventID = units[i].NoEvent()
		}
		statuses[i] = status
	}
	return statuses, nil
}

// Parked returns the position of each unit, in the order of units.
func (s *Store) Parked(ctx context.Context, units []model.Unit) ([]model.Position, error) {
	statuses, err := s.Statuses(ctx, units)
	if err != nil {
		return nil, err
	}
	positions := make([]model.Position, len(statuses))
	for i := range statuses {
		positions[i] = statuses[i].Position
	}
	return positions, nil
}
