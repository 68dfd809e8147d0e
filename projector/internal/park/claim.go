package park

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/lease"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// ErrClaimLost is returned if this process must no longer resume the aggregate: another
// process has claimed the marker after this claim expired, the aggregate was parked for another
// reason, or the marker is gone.
var ErrClaimLost = errors.New("the parked aggregate is no longer claimed")

// requestTimeout bounds one request about a claim.
const requestTimeout = 10 * time.Second

// claims has the fields of the lease on a marker: a claim postpones its next attempt.
var claims = lease.Fields{Until: fieldRetryAt, Holder: fieldClaim}

// clocksApart is more than the clock of a process differs from the server's. A search of the
// index needs a time that is known before, so it reads some markers that are not due yet. The
// server decides.
const clocksApart = 5 * time.Minute

// unsetAttempts returns the fields that only a marker that resumes has, to remove them.
func unsetAttempts() bson.D {
	return bson.D{{Key: fieldRetryAt, Value: ""}, {Key: fieldAttempts, Value: ""}, {Key: fieldClaim, Value: ""}}
}

// claimedKey is the key of a claimed marker.
func claimedKey(c *model.Claimed) Key {
	return Key{Projection: c.Projection, AggregateID: c.AggregateID, Generation: c.Generation}
}

// resumable has the fields of a marker that a claim reads.
type resumable struct {
	ID             Key           `bson:"_id"`
	RawAggregateID bson.RawValue `bson:"rawAggregateId"`
	Head           int64         `bson:"head"`
	Attempts       int           `bson:"attempts"`
}

// ofGeneration matches the markers of a generation.
func ofGeneration(g Served) bson.D {
	return bson.D{{Key: fieldProjection, Value: g.Projection}, {Key: fieldGeneration, Value: g.number()}}
}

// Claim claims the marker that has been due for longest, by the server's clock. Until the
// lease ends, no other process can claim it. Claim considers only markers of served
// generations. The result is false if none is due.
func (s *Store) Claim(ctx context.Context, lasts time.Duration) (model.Claimed, bool, error) {
	// With the bound in each branch, the server merges the due markers of the served generations
	// from the index, and reads none of the others: these can be many, and are due for ever.
	due := bson.E{Key: fieldRetryAt, Value: bson.D{{Key: "$lte", Value: time.Now().Add(clocksApart)}}}
	var served bson.A
	for _, g := range s.serving() {
		served = append(served, append(ofGeneration(g), due))
	}
	if len(served) == 0 {
		return model.Claimed{}, false, nil
	}
	claim := bson.NewObjectID()
	finding, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	var m resumable
	err := s.collection.FindOneAndUpdate(finding,
		bson.D{claims.Free(), {Key: "$or", Value: served}},
		bson.A{bson.D{{Key: "$set", Value: claims.Take(claim, lasts)}}},
		options.FindOneAndUpdate().SetSort(bson.D{{Key: fieldRetryAt, Value: 1}})).Decode(&m)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return model.Claimed{}, false, nil
	}
	if err != nil {
		return model.Claimed{}, false, fmt.Errorf("claim a parked aggregate: %w", mongox.Explain(finding, err))
	}
	return model.Claimed{
		Projection: m.ID.Projection, AggregateID: m.ID.AggregateID, Generation: m.ID.Generation, RawAggregateID: m.RawAggregateID,
		Head: m.Head, Attempts: m.Attempts, Claim: claim,
	}, true, nil
}

// Extend extends the claim by another lease and returns the marker's head, which may have
// risen. It returns [ErrClaimLost] if the claim is lost.
func (s *Store) Extend(ctx context.Context, c model.Claimed, lasts time.Duration) (head int64, err error) {
	return s.change(ctx, c, bson.D{claims.Renew(lasts)})
}

// Finished is the head of a marker that is deleted. No event has that id.
const Finished int64 = -1

// Finish deletes the marker of an aggregate whose read model has the given watermark. If
// the marker's head is above the watermark, because another event was acknowledged in
// between, Finish extends the claim and returns the new head instead. [Finished] means
// that the marker is deleted.
//
// The server compares and deletes in one operation. If a session acknowledges an event
// before it, the marker's head is the event's id. After it, [Store.Advance] finds no
// marker.
func (s *Store) Finish(ctx context.Context, c model.Claimed, watermark int64, lasts time.Duration) (head int64, err error) {
	deleting, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	result, err := s.collection.DeleteOne(deleting, bson.D{
		{Key: fieldID, Value: claimedKey(&c)},
		{Key: fieldClaim, Value: c.Claim},
		{Key: fieldHead, Value: bson.D{{Key: "$lte", Value: watermark}}},
	})
	if err != nil {
		return 0, fmt.Errorf("delete the marker of %s in %s: %w", c.AggregateID, c.Projection, mongox.Explain(deleting, err))
	}
	if result.DeletedCount == 1 {
		s.notify()
		return Finished, nil
	}
	return s.Extend(ctx, c, lasts)
}

// Postpone releases a marker with the latest failure, to be claimed after a wait.
func (s *Store) Postpone(ctx context.Context, c model.Claimed, f model.Failure) error {
	_, err := s.change(ctx, c, bson.D{
		{Key: fieldReason, Value: mongox.Literal(f.Reason)},
		{Key: fieldError, Value: mongox.Literal(clip(f.Error))},
		{Key: fieldEventID, Value: mongox.Literal(f.EventID)},
		{Key: fieldAttempts, Value: mongox.Literal(f.Attempts)},
		claims.Release(retryAfter(f.Attempts, f.Seldom)),
	}, fieldClaim)
	return err
}

// Return releases a marker unchanged. After the delay, any process can claim it.
func (s *Store) Return(ctx context.Context, c model.Claimed, delay time.Duration) error {
	_, err := s.change(ctx, c, bson.D{claims.Release(delay)}, fieldClaim)
	return err
}

// change updates a claimed marker and returns its head.
func (s *Store) change(ctx context.Context, c model.Claimed, set bson.D, unset ...string) (head int64, err error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	update := bson.A{bson.D{{Key: "$set", Value: set}}}
	if len(unset) > 0 {
		update = append(update, bson.D{{Key: "$unset", Value: unset}})
	}
	var m resumable
	err = s.collection.FindOneAndUpdate(ctx, bson.D{{Key: fieldID, Value: claimedKey(&c)}, {Key: fieldClaim, Value: c.Claim}}, update).Decode(&m)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return 0, fmt.Errorf("keep %s in %s: %w", c.AggregateID, c.Projection, ErrClaimLost)
	case err != nil:
		return 0, fmt.Errorf("keep %s in %s: %w", c.AggregateID, c.Projection, mongox.Explain(ctx, err))
	}
	return m.Head, nil
}

const (
	// firstRetry is the wait until the first attempt to resume a parked aggregate. The wait doubles
	// with each attempt, up to maxRetry.
	firstRetry, maxRetry = 200 * time.Millisecond, time.Minute
	// seldomAttempts is the number of attempts that a marker with seldom attempts begins with:
	// its first attempt is a minute away. There can be as many of them as there are aggregates.
	seldomAttempts = 9
	// maxSeldom bounds the wait of such a marker: mostly its reason ends only when somebody acts.
	maxSeldom = time.Hour
)

// retryAfter returns the wait after the given number of attempts, which is 0 for an
// aggregate that was just parked. Half of the wait is random, so that aggregates which
// were parked together are not due together.
func retryAfter(attempts int, seldom bool) time.Duration {
	limit := maxRetry
	if seldom {
		limit = maxSeldom
	}
	return poll.After(firstRetry, limit, attempts+1)
}

// Prepare creates the index of the collection of markers: it finds the markers of a generation,
// and the due ones among them in their order.
func Prepare(ctx context.Context, markers *mongo.Collection) error {
	return mongox.CreateIndex(ctx, markers, bson.D{{Key: fieldProjection, Value: 1}, {Key: fieldGeneration, Value: 1}, {Key: fieldRetryAt, Value: 1}})
}
