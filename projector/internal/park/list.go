package park

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// listTimeout bounds one request for a list. It is long because the request reads the
// whole collection.
const listTimeout = 30 * time.Second

// Filter selects markers. The zero value selects all that are not discarded.
type Filter struct {
	// Projection, Reason and AggregateID must be equal; empty means any.
	Projection, Reason, AggregateID string
	// Among are ids of which AggregateID must be one; empty means any.
	Among []string
	// Except are projections whose markers are left out.
	Except []string
	// Generation is that of the projection; 0 means any.
	Generation int64
	// Before selects markers that were parked before this time; zero means at any time.
	Before time.Time
	// Discarded selects the discarded markers instead of the others.
	Discarded bool
}

// query returns the filter for MongoDB.
func (f Filter) query() bson.D {
	operator := "$ne"
	if f.Discarded {
		operator = "$eq"
	}
	query := bson.D{{Key: "$expr", Value: bson.D{{Key: operator, Value: bson.A{"$" + fieldDiscardedEventID, "$" + fieldEventID}}}}}
	for _, equal := range []struct{ field, value string }{
		{fieldProjection, f.Projection}, {fieldReason, f.Reason}, {fieldAggregateID, f.AggregateID},
	} {
		if equal.value != "" {
			query = append(query, bson.E{Key: equal.field, Value: equal.value})
		}
	}
	if len(f.Among) > 0 {
		query = append(query, bson.E{Key: fieldAggregateID, Value: bson.D{{Key: "$in", Value: f.Among}}})
	}
	if len(f.Except) > 0 {
		query = append(query, bson.E{Key: fieldProjection, Value: bson.D{{Key: "$nin", Value: f.Except}}})
	}
	if f.Generation > 0 {
		query = append(query, ofGeneration(Served{f.Projection, f.Generation})[1])
	}
	if !f.Before.IsZero() {
		query = append(query, bson.E{Key: fieldParkedAt, Value: bson.D{{Key: "$lt", Value: f.Before}}})
	}
	return query
}

// Listed is a marker in a list for people.
type Listed struct {
	Key    `bson:"_id"`
	Reason string `bson:"reason" json:"reason"`
	Error  string `bson:"error" json:"error"`
	// EventID is the event that failed or is missing, and MessageID the id of its
	// message. Head is the last event that was acknowledged since.
	EventID   int64     `bson:"eventId" json:"eventId"`
	MessageID string    `bson:"messageId" json:"messageId"`
	Head      int64     `bson:"head" json:"head"`
	ParkedAt  time.Time `bson:"parkedAt" json:"parkedAt"`
	// RetryAt is the time of the next attempt; nil if the marker is permanent.
	RetryAt *time.Time `bson:"retryAt" json:"retryAt,omitempty"`
	// Attempts counts the attempts in a row without progress.
	Attempts int `bson:"attempts" json:"attempts,omitempty"`
	// Claimed is set while a process is resuming the aggregate.
	Claimed bool `bson:"-" json:"claimed,omitempty"`
	// Retries counts the requested retries of the event. RetriedAt is the time of the
	// last one.
	Retries   int        `bson:"-" json:"retries,omitempty"`
	RetriedAt *time.Time `bson:"-" json:"retriedAt,omitempty"`
	// Discarded is set if the marker is discarded.
	Discarded *Discard `bson:"-" json:"discarded,omitempty"`
}

// listed is a marker as a list reads it. A retry and a discard may be of an earlier event.
type listed struct {
	Listed  `bson:",inline"`
	Claim   *bson.ObjectID `bson:"claim"`
	Retried retried        `bson:"retried"`
	Discard Discard        `bson:"discarded"`
}

func (m *listed) listed() Listed {
	m.Claimed = m.Claim != nil
	if m.Retried.EventID == m.EventID && m.Retried.Count > 0 {
		m.Retries, m.RetriedAt = m.Retried.Count, &m.Retried.At
	}
	if m.Discard.EventID == m.EventID && !m.Discard.At.IsZero() {
		m.Discarded = &m.Discard
	}
	return m.Listed
}

// List returns at most limit markers that the filter selects, in the order in which they were parked;
// all of them if limit is 0. It leaves out markers that cannot be read, whose ids the log has.
func (s *Store) List(ctx context.Context, f Filter, limit int) ([]Listed, error) {
	return s.list(ctx, f.query(), options.Find().SetSort(bson.D{{Key: fieldParkedAt, Value: 1}, {Key: fieldID, Value: 1}}).SetLimit(int64(limit)))
}

// Example returns one marker of a projection and a reason that is not discarded; the zero
// value if there is none.
func (s *Store) Example(ctx context.Context, projection, reason string) (Listed, error) {
	f := Filter{Projection: projection, Reason: reason}
	found, err := s.list(ctx, f.query(), options.Find().SetLimit(1))
	if err != nil || len(found) == 0 {
		return Listed{}, err
	}
	return found[0], nil
}

func (s *Store) list(ctx context.Context, query bson.D, o *options.FindOptionsBuilder) ([]Listed, error) {
	ctx, cancel := mongox.Timeout(ctx, listTimeout)
	defer cancel()
	markers, err := mongox.All[listed](ctx, s.collection)(s.collection.Find(ctx, query, o))
	if err := s.omitted.Report(err, s.options.Logger); err != nil {
		return nil, fmt.Errorf("list parked aggregates: %w", mongox.Explain(ctx, err))
	}
	found := make([]Listed, len(markers))
	for i := range markers {
		found[i] = markers[i].listed()
	}
	return found, nil
}

// Matching counts the markers that the filter selects.
func (s *Store) Matching(ctx context.Context, f Filter) (int64, error) {
	n, err := mongox.Within(ctx, listTimeout, func(ctx context.Context) (int64, error) {
		return s.collection.CountDocuments(ctx, f.query())
	})
	if err != nil {
		return 0, fmt.Errorf("count parked aggregates: %w", err)
	}
	return n, nil
}
