package park

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Remove deletes listed markers. Their aggregates are no longer parked: an event that the
// marker has acknowledged, and that the read model does not have, is found as a gap at the
// aggregate's next event. Markers that have changed since they were listed, or are being
// resumed, are not deleted. The result is the number of deleted markers.
func (s *Store) Remove(ctx context.Context, markers []Listed) (int64, error) {
	writes := make([]mongo.WriteModel, len(markers))
	for i := range markers {
		writes[i] = mongo.NewDeleteOneModel().SetFilter(append(unchanged(&markers[i]),
			bson.E{Key: fieldHead, Value: markers[i].Head},
			bson.E{Key: fieldClaim, Value: bson.D{{Key: "$exists", Value: false}}}))
	}
	return s.changeListed(ctx, "remove", writes)
}

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
