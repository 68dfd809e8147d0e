package park

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	// fieldRetried is the last retry of a permanent marker on request.
	fieldRetried = "retried"
	// retrySpacing is between two attempts that one request asks for: a long list must not
	// delay the aggregates that resume by themselves.
	retrySpacing = 20 * time.Millisecond
	// firstRequest and maxRequest bound the wait between two requested attempts at one
	// event, which doubles with each of them.
	firstRequest, maxRequest = time.Second, time.Minute
)

// retried is a retry on request.
type retried struct {
	// EventID is the event that is retried: an earlier retry of another event does not
	// count.
	EventID int64     `bson:"eventId"`
	Count   int       `bson:"count"`
	At      time.Time `bson:"at"`
}

// Retry makes listed markers claimable, permanent and discarded ones too, so that a
// process resumes their aggregates soon. The attempts are spread over time, 50 a second,
// and each further retry of one event waits longer, up to a minute. Markers that have
// changed since they were listed, or are being resumed, stay as they are. The result is
// how many were made claimable.
//
// If the event fails again, the aggregate is parked again, with a marker that stays.
func (s *Store) Retry(ctx context.Context, markers []Listed, now time.Time) (int64, error) {
	writes := make([]mongo.WriteModel, len(markers))
	for i := range markers {
		m := &markers[i]
		due := now.Add(time.Duration(i) * retrySpacing)
		set := bson.D{{Key: fieldAttempts, Value: 0}}
		if m.RetryAt == nil {
			if m.RetriedAt != nil {
				const doublings = 16
				due = later(due, m.RetriedAt.Add(min(firstRequest<<min(m.Retries, doublings), maxRequest)))
			}
			set = append(set, bson.E{Key: fieldRetried, Value: retried{EventID: m.EventID, Count: m.Retries + 1, At: due}})
		}
		writes[i] = mongo.NewUpdateOneModel().
			SetFilter(append(unchanged(m), bson.E{Key: fieldClaim, Value: bson.D{{Key: "$exists", Value: false}}})).
			SetUpdate(bson.D{
				{Key: "$set", Value: append(set, bson.E{Key: fieldRetryAt, Value: due})},
				{Key: "$unset", Value: bson.D{{Key: fieldDiscarded, Value: ""}}},
			})
	}
	return s.changeListed(ctx, "retry", writes)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// unchanged matches a marker that is still at the event that was listed.
func unchanged(m *Listed) bson.D {
	return bson.D{{Key: fieldID, Value: m.key}, {Key: fieldEventID, Value: m.EventID}}
}

// changeListed writes changes of listed markers and counts the markers that were changed.
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

// Again gives those of the listed markers that still exist, as they are now.
func (s *Store) Again(ctx context.Context, markers []Listed) ([]Listed, error) {
	var found []Listed
	for part := range slices.Chunk(markers, maxKeys) {
		keys := make([]key, len(part))
		for i := range part {
			keys[i] = part[i].key
		}
		now, err := s.list(ctx, bson.D{{Key: fieldID, Value: bson.D{{Key: "$in", Value: keys}}}}, options.Find().SetBatchSize(maxKeys))
		if err != nil {
			return nil, err
		}
		found = append(found, now...)
	}
	return found, nil
}
