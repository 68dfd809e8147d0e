package park

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// ErrClaimLost says that a marker is no longer this process's to resume: its claim has
// expired and another process has it, its aggregate was parked for another reason, or
// it has gone.
var ErrClaimLost = errors.New("the parked aggregate is no longer claimed")

// requestTimeout bounds one request about a claim.
const requestTimeout = 10 * time.Second

// Claimed is a marker that this process is resuming.
type Claimed struct {
	Projection, AggregateID string
	// Generation is 0 for the first one.
	Generation     int64
	RawAggregateID bson.RawValue
	// Head is the last event that was acknowledged, as of the claim.
	Head int64
	// Attempts counts the attempts so far that brought nothing.
	Attempts int
	// Failed is the event that is retried on request after it had parked the aggregate; 0
	// if the aggregate resumes by itself.
	Failed int64
	// Claim identifies the claim.
	Claim bson.ObjectID
}

func (c *Claimed) key() key {
	return key{Projection: c.Projection, AggregateID: c.AggregateID, Generation: c.Generation}
}

// resumable is a marker as the claims read it.
type resumable struct {
	ID             key           `bson:"_id"`
	RawAggregateID bson.RawValue `bson:"rawAggregateId"`
	Head           int64         `bson:"head"`
	Attempts       int           `bson:"attempts"`
	Retried        retried       `bson:"retried"`
}

// ofGeneration matches the markers of a generation.
func ofGeneration(g Served) bson.D {
	filter := bson.D{{Key: fieldProjection, Value: g.Projection}, {Key: fieldGeneration, Value: nil}}
	if later := g.later(); later > 0 {
		filter[1].Value = later
	}
	return filter
}

// Claim takes the marker that has been due for longest, for the duration of lease: no
// other process gets it before the lease ends. It takes markers of served generations
// only. The result is false if none is due.
func (s *Store) Claim(ctx context.Context, lease time.Duration) (Claimed, bool, error) {
	var served bson.A
	for _, g := range s.serving() {
		served = append(served, ofGeneration(g))
	}
	if len(served) == 0 {
		return Claimed{}, false, nil
	}
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	claim, now := bson.NewObjectID(), time.Now()
	var m resumable
	err := s.collection.FindOneAndUpdate(ctx,
		bson.D{
			{Key: fieldRetryAt, Value: bson.D{{Key: "$lte", Value: now}}},
			{Key: "$or", Value: served},
		},
		bson.D{{Key: "$set", Value: bson.D{{Key: fieldRetryAt, Value: now.Add(lease)}, {Key: fieldClaim, Value: claim}}}},
		options.FindOneAndUpdate().SetSort(bson.D{{Key: fieldRetryAt, Value: 1}})).Decode(&m)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return Claimed{}, false, nil
	}
	if err != nil {
		return Claimed{}, false, fmt.Errorf("claim a parked aggregate: %w", mongox.Explain(ctx, err))
	}
	return Claimed{
		Projection: m.ID.Projection, AggregateID: m.ID.AggregateID, Generation: m.ID.Generation, RawAggregateID: m.RawAggregateID,
		Head: m.Head, Attempts: m.Attempts, Failed: m.Retried.EventID, Claim: claim,
	}, true, nil
}

// Extend keeps the marker for another lease and gives its head, which may have risen.
// It returns [ErrClaimLost] if the claim is lost.
func (s *Store) Extend(ctx context.Context, c Claimed, lease time.Duration) (head int64, err error) {
	return s.change(ctx, c, bson.D{{Key: "$set", Value: bson.D{{Key: fieldRetryAt, Value: time.Now().Add(lease)}}}})
}

// Finish deletes the marker of an aggregate whose read model has reached the event
// watermark, unless the head has risen above that: an event was acknowledged in
// between, trusting in the marker. Then the new head is the result, and the marker is
// kept for another lease. 0 means that the marker is deleted.
//
// Comparing and deleting is one operation of the server. A session that acknowledges an
// event for the marker therefore does so either before it, and the head shows the event,
// or after it, and [Store.Advance] finds no marker.
func (s *Store) Finish(ctx context.Context, c Claimed, watermark int64, lease time.Duration) (head int64, err error) {
	deleting, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	result, err := s.collection.DeleteOne(deleting, bson.D{
		{Key: fieldID, Value: c.key()},
		{Key: fieldClaim, Value: c.Claim},
		{Key: fieldHead, Value: bson.D{{Key: "$lte", Value: watermark}}},
	})
	if err != nil {
		return 0, fmt.Errorf("delete the marker of %s in %s: %w", c.AggregateID, c.Projection, mongox.Explain(deleting, err))
	}
	if result.DeletedCount == 1 {
		s.notify()
		return 0, nil
	}
	return s.Extend(ctx, c, lease)
}

// Failure is why an aggregate could not be resumed.
type Failure struct {
	// Reason, Error and EventID are as in [model.Marker].
	Reason, Error string
	EventID       int64
	// Attempts is how many attempts in a row have brought nothing, this one included:
	// the wait until the next doubles with it.
	Attempts int
}

// Postpone gives a marker back to be claimed later, with what is known now.
func (s *Store) Postpone(ctx context.Context, c Claimed, f Failure) error {
	_, err := s.change(ctx, c, bson.D{
		{Key: "$set", Value: bson.D{
			{Key: fieldReason, Value: f.Reason},
			{Key: fieldError, Value: clip(f.Error)},
			{Key: fieldEventID, Value: f.EventID},
			{Key: fieldAttempts, Value: f.Attempts},
			{Key: fieldRetryAt, Value: time.Now().Add(s.retryAfter(f.Attempts))},
		}},
		{Key: "$unset", Value: bson.D{{Key: fieldClaim, Value: ""}}},
	})
	return err
}

// Return gives a marker back as it was, to be claimed at once: this process stops.
func (s *Store) Return(ctx context.Context, c Claimed) error {
	_, err := s.change(ctx, c, bson.D{
		{Key: "$set", Value: bson.D{{Key: fieldRetryAt, Value: time.Now()}}},
		{Key: "$unset", Value: bson.D{{Key: fieldClaim, Value: ""}}},
	})
	return err
}

// change updates a claimed marker and gives its head.
func (s *Store) change(ctx context.Context, c Claimed, update bson.D) (head int64, err error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	var m resumable
	err = s.collection.FindOneAndUpdate(ctx, bson.D{{Key: fieldID, Value: c.key()}, {Key: fieldClaim, Value: c.Claim}}, update).Decode(&m)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return 0, fmt.Errorf("keep %s in %s: %w", c.AggregateID, c.Projection, ErrClaimLost)
	case err != nil:
		return 0, fmt.Errorf("keep %s in %s: %w", c.AggregateID, c.Projection, mongox.Explain(ctx, err))
	}
	return m.Head, nil
}

// retryAfter is the wait after so many attempts, 0 for an aggregate that was just parked.
// Half of it is random, so that aggregates which were parked at the same moment are not
// all due at the same moment.
func (s *Store) retryAfter(attempts int) time.Duration {
	return backoff.After(s.options.FirstRetry, s.options.MaxRetry, attempts+1)
}

// Indexes is what [Prepare] needs of a [*mongo.Collection].
type Indexes interface {
	CreateOne(ctx context.Context, model mongo.IndexModel, opts ...options.Lister[options.CreateIndexesOptions]) (string, error)
}

// Prepare creates the index by which markers that are due are found. Markers that stay
// until an operator has them retried are not in it.
func Prepare(ctx context.Context, indexes Indexes) error {
	model := mongo.IndexModel{
		Keys:    bson.D{{Key: fieldRetryAt, Value: 1}},
		Options: options.Index().SetSparse(true),
	}
	if _, err := indexes.CreateOne(ctx, model); err != nil {
		return fmt.Errorf("create the index on %s of collection %s: %w", fieldRetryAt, CollectionName, err)
	}
	return nil
}
