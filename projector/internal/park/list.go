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
	Projection  string `json:"projection"`
	AggregateID string `json:"aggregateId"`
	// Generation is the generation of the projection in which the aggregate is parked.
	Generation int64  `json:"generation"`
	Reason     string `json:"reason"`
	Error      string `json:"error"`
	// EventID is the event that failed or is missing, and MessageID the id of its
	// message. Head is the last event that was acknowledged since.
	EventID   int64     `json:"eventId"`
	MessageID string    `json:"messageId"`
	Head      int64     `json:"head"`
	ParkedAt  time.Time `json:"parkedAt"`
	// RetryAt is the time of the next attempt; nil if the marker is permanent.
	RetryAt *time.Time `json:"retryAt,omitempty"`
	// Attempts counts the attempts in a row without progress.
	Attempts int `json:"attempts,omitempty"`
	// Claimed is set while a process is resuming the aggregate.
	Claimed bool `json:"claimed,omitempty"`
	// Retries counts the requested retries of the event. RetriedAt is the time of the
	// last one.
	Retries   int        `json:"retries,omitempty"`
	RetriedAt *time.Time `json:"retriedAt,omitempty"`
	// Discarded is set if the marker is discarded.
	Discarded *Discard `json:"discarded,omitempty"`

	key key
}

// listed has the fields of a marker that a list reads.
type listed struct {
	ID        key            `bson:"_id"`
	Reason    string         `bson:"reason"`
	Error     string         `bson:"error"`
	EventID   int64          `bson:"eventId"`
	MessageID string         `bson:"messageId"`
	Head      int64          `bson:"head"`
	ParkedAt  time.Time      `bson:"parkedAt"`
	RetryAt   *time.Time     `bson:"retryAt"`
	Attempts  int            `bson:"attempts"`
	Claim     *bson.ObjectID `bson:"claim"`
	Retried   retried        `bson:"retried"`
	Discarded Discard        `bson:"discarded"`
}

func (m *listed) listed() Listed {
	l := Listed{
		Projection: m.ID.Projection, AggregateID: m.ID.AggregateID, Generation: m.ID.Generation,
		Reason: m.Reason, Error: m.Error, EventID: m.EventID, MessageID: m.MessageID, Head: m.Head, ParkedAt: m.ParkedAt,
		RetryAt: m.RetryAt, Attempts: m.Attempts, Claimed: m.Claim != nil, key: m.ID,
	}
	if m.Retried.EventID == m.EventID && m.Retried.Count > 0 {
		l.Retries, l.RetriedAt = m.Retried.Count, &m.Retried.At
	}
	if m.Discarded.EventID == m.EventID && !m.Discarded.At.IsZero() {
		l.Discarded = &m.Discarded
	}
	return l
}

// List returns at most limit markers that the filter selects, in the order in which they
// were parked. It leaves out markers that cannot be read, whose ids the log has.
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
	ctx, cancel := mongox.Timeout(ctx, listTimeout)
	defer cancel()
	type counted struct {
		Count int64 `bson:"count"`
	}
	counts, err := mongox.All[counted](ctx, s.collection)(s.collection.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: f.query()}},
		bson.D{{Key: "$count", Value: "count"}},
	}))
	if err != nil {
		return 0, fmt.Errorf("count parked aggregates: %w", mongox.Explain(ctx, err))
	}
	if len(counts) == 0 {
		return 0, nil
	}
	return counts[0].Count, nil
}
