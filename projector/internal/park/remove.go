package park

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Erase deletes the markers of an aggregate in projections, whatever their state, and gives their
// number. The caller makes the read models anew afterwards.
func (s *Store) Erase(ctx context.Context, aggregateID string, projections []string) (int64, error) {
	result, err := s.collection.DeleteMany(ctx, bson.D{
		{Key: fieldProjection, Value: bson.D{{Key: "$in", Value: projections}}}, {Key: fieldAggregateID, Value: aggregateID},
	})
	if err != nil {
		return 0, fmt.Errorf("delete the markers of an aggregate: %w", err)
	}
	return result.DeletedCount, nil
}
