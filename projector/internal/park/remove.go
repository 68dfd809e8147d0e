package park

import (
	"context"

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
