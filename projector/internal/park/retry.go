package park

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// fieldRetried has the last requested retry of a permanent marker.
	fieldRetried        = "retried"
	fieldRetriedEventID = "retried.eventId"
	fieldRetriedCount   = "retried.count"
	// retrySpacing is the time between two attempts of one request, so that a long list
	// does not delay the aggregates that resume by themselves.
	retrySpacing = 20 * time.Millisecond
	// firstRequest and maxRequest bound the wait between two requested attempts at one
	// event. The wait doubles with each attempt.
	firstRequest, maxRequest = time.Second, time.Minute
)

// retried is a requested retry.
type retried struct {
	// EventID is the retried event. Retries of other events do not count.
	EventID int64     `bson:"eventId"`
	Count   int       `bson:"count"`
	At      time.Time `bson:"at"`
}

// Retry makes listed markers claimable, including permanent ones and those that were listed
// as discarded, so that a process soon resumes their aggregates. The attempts are spread over
// time, 50 per second. Each further retry of one event waits longer, up to a minute. A marker
// that is due earlier stays so. Markers that have changed since they were listed, or are being
// resumed, are not changed. The result is the number of markers made claimable.
//
// If the event fails again, the aggregate is parked again with a permanent marker.
func (s *Store) Retry(ctx context.Context, markers []Listed) (int64, error) {
	writes := make([]mongo.WriteModel, len(markers))
	for i := range markers {
		m := &markers[i]
		set := bson.D{{Key: fieldAttempts, Value: mongox.Literal(0)}, claims.Shorten(time.Duration(i) * retrySpacing)}
		if m.RetryAt == nil {
			due := mongox.FromNow(time.Duration(i) * retrySpacing)
			if m.RetriedAt != nil {
				const doublings = 16
				earliest := m.RetriedAt.Add(min(firstRequest<<min(m.Retries, doublings), maxRequest))
				due = bson.D{{Key: "$max", Value: bson.A{due, earliest}}}
			}
			set = append(set[:1], bson.E{Key: fieldRetryAt, Value: due}, bson.E{Key: fieldRetried, Value: bson.D{
				{Key: "eventId", Value: m.EventID}, {Key: "count", Value: m.Retries + 1}, {Key: "at", Value: due},
			}})
		}
		writes[i] = mongo.NewUpdateOneModel().
			SetFilter(append(unchanged(m), bson.E{Key: fieldClaim, Value: bson.D{{Key: "$exists", Value: false}}})).
			SetUpdate(bson.A{
				bson.D{{Key: "$set", Value: set}},
				bson.D{{Key: "$unset", Value: fieldDiscarded}},
			})
	}
	return s.changeListed(ctx, "retry", writes)
}

// unchanged matches a marker if it is still at the listed event, and if no other command has
// retried, discarded or resumed it since it was listed. A person who is asked for confirmation
// must not undo the decision that another person makes meanwhile.
func unchanged(m *Listed) bson.D {
	filter := bson.D{{Key: fieldID, Value: m.Key}, {Key: fieldEventID, Value: m.EventID}}
	// A discard and the retries of another event do not count.
	another := bson.D{{Key: "$ne", Value: m.EventID}}
	if m.Discarded == nil {
		filter = append(filter, bson.E{Key: fieldDiscardedEventID, Value: another})
	} else {
		filter = append(filter, bson.E{Key: fieldDiscardedEventID, Value: m.EventID}, bson.E{Key: fieldDiscardedAt, Value: m.Discarded.At})
	}
	if m.RetriedAt == nil {
		return append(filter, bson.E{Key: fieldRetriedEventID, Value: another})
	}
	return append(filter, bson.E{Key: fieldRetriedEventID, Value: m.EventID}, bson.E{Key: fieldRetriedCount, Value: m.Retries})
}

// changeListed changes listed markers and returns their number.
func (s *Store) changeListed(ctx context.Context, verb string, writes []mongo.WriteModel) (int64, error) {
	var changed int64
	for part := range slices.Chunk(writes, maxKeys) {
		result, err := s.collection.BulkWrite(ctx, part, options.BulkWrite().SetOrdered(false))
		if err != nil {
			return changed, fmt.Errorf("%s %d parked aggregates: %w", verb, len(writes), err)
		}
		changed += result.MatchedCount
	}
	return changed, nil
}

// Again returns the current state of those listed markers that still exist.
func (s *Store) Again(ctx context.Context, markers []Listed) ([]Listed, error) {
	var found []Listed
	for part := range slices.Chunk(markers, maxKeys) {
		keys := make([]Key, len(part))
		for i := range part {
			keys[i] = part[i].Key
		}
		now, err := s.list(ctx, bson.D{{Key: fieldID, Value: bson.D{{Key: "$in", Value: keys}}}}, options.Find().SetBatchSize(maxKeys))
		if err != nil {
			return nil, err
		}
		found = append(found, now...)
	}
	return found, nil
}
