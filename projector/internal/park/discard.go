package park

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	// fieldDiscarded has who discarded a marker and why.
	fieldDiscarded        = "discarded"
	fieldDiscardedEventID = "discarded.eventId"
	fieldDiscardedAt      = "discarded.at"
)

// Discard records who accepted that an aggregate stays parked, and why.
type Discard struct {
	// EventID is the event at which the aggregate was parked. If it is parked at another
	// event later, the marker is no longer discarded.
	EventID int64     `bson:"eventId" json:"eventId"`
	Who     string    `bson:"who" json:"who"`
	Why     string    `bson:"why" json:"why"`
	At      time.Time `bson:"at" json:"at"`
}

// Discard marks listed markers as discarded. Their aggregates stay parked, but no alert
// counts them. A discarded marker is not resumed, and is neither listed nor counted as
// parked. The marker is kept, so the aggregate's later events are acknowledged and remain
// in the event store, and [Store.Retry] can resume the aggregate at any time. Markers
// that have changed since they were listed are not discarded. The result is the number of
// discarded markers.
func (s *Store) Discard(ctx context.Context, markers []Listed, d Discard) (int64, error) {
	writes := make([]mongo.WriteModel, len(markers))
	for i := range markers {
		d.EventID = markers[i].EventID
		d.Why = clip(d.Why)
		writes[i] = mongo.NewUpdateOneModel().SetFilter(unchanged(&markers[i])).SetUpdate(bson.D{
			{Key: "$set", Value: bson.D{{Key: fieldDiscarded, Value: d}}},
			{Key: "$unset", Value: unsetAttempts()},
		})
	}
	return s.changeListed(ctx, "discard", writes)
}
