package job

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
)

// Query selects active jobs.
type Query struct {
	// Kinds are the kinds that the process has workers for.
	Kinds []Kind
	// Only restricts the query to one job; empty means all.
	Only string
}

// Active returns the jobs that can be worked on, in the order of their ids. It leaves out jobs that
// cannot be read, whose ids the log has: they must not stop the work on the others.
func (s *Store) Active(ctx context.Context, q Query) ([]Job, error) {
	filter := bson.D{
		{Key: "state", Value: bson.D{{Key: "$in", Value: bson.A{Planning, Running}}}},
		{Key: "kind", Value: bson.D{{Key: "$in", Value: q.Kinds}}},
	}
	if q.Only != "" {
		filter = append(filter, bson.E{Key: "_id", Value: q.Only})
	}
	var found []Job
	err := s.request(ctx, func(ctx context.Context) (err error) {
		found, err = mongox.All[Job](ctx, s.jobs)(s.jobs.Find(ctx, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}})))
		return err
	})
	if err := s.omitted.Report(err, s.options.Logger); err != nil {
		return nil, fmt.Errorf("list active jobs: %w", err)
	}
	return found, nil
}

// leases are the fields of the leases on ranges, and on jobs that are to be planned.
var leases = lease.Fields{Until: "leaseUntil", Holder: "holder", Epoch: "epoch"}

// Claim leases an open range of the job, or its planning, to holder. It returns false
// if there is none now. If no range is left to be finished, it completes the job.
func (s *Store) Claim(ctx context.Context, j Job, holder string, lasts time.Duration) (Claim, bool, error) {
	if j.State == Planning {
		var claimed Job
		ok, err := s.take(ctx, s.jobs, bson.D{{Key: "_id", Value: j.ID}, {Key: "state", Value: Planning}}, holder, lasts, &claimed)
		if err != nil {
			return Claim{}, false, fmt.Errorf("claim the planning of job %s: %w", j.ID, err)
		}
		return Claim{Job: claimed, Planning: true, Epoch: claimed.Epoch}, ok, nil
	}
	var r Range
	ok, err := s.take(ctx, s.ranges, bson.D{{Key: "job", Value: j.ID}, {Key: "plan", Value: j.Epoch}, {Key: "done", Value: false}}, holder, lasts, &r)
	switch {
	case err != nil:
		return Claim{}, false, fmt.Errorf("claim a range of job %s: %w", j.ID, err)
	case !ok:
		return Claim{}, false, s.completeIfFinished(ctx, j)
	}
	c := Claim{Job: j, Range: r, Epoch: r.Epoch}
	// The job may have been cancelled since it was read.
	switch err := s.check(ctx, c); {
	case errors.Is(err, ErrCancelled):
		if err := s.Return(ctx, c, 0, nil); stops(err) {
			return Claim{}, false, nil
		}
		return Claim{}, false, err
	case err != nil:
		return Claim{}, false, err
	}
	return c, true, nil
}

// take leases the first free document that matches, and decodes it. It returns false if
// there is none.
func (s *Store) take(ctx context.Context, c mongox.Collection, filter bson.D, holder string, lasts time.Duration, taken any) (bool, error) {
	err := s.request(ctx, func(ctx context.Context) error {
		return c.FindOneAndUpdate(ctx, append(filter, leases.Free()), pipeline(leases.Take(holder, lasts)),
			options.FindOneAndUpdate().SetSort(bson.D{{Key: "index", Value: 1}}).SetReturnDocument(options.After)).Decode(taken)
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}

// check reports whether the claim's job is still running.
func (s *Store) check(ctx context.Context, c Claim) error {
	var found struct {
		State State `bson:"state"`
	}
	err := s.request(ctx, func(ctx context.Context) error {
		return s.jobs.FindOne(ctx, bson.D{{Key: "_id", Value: c.Job.ID}},
			options.FindOne().SetProjection(bson.D{{Key: "state", Value: 1}})).Decode(&found)
	})
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return fmt.Errorf("job %s has been deleted: %w", c.Job.ID, ErrCancelled)
	case err != nil:
		return fmt.Errorf("read the state of job %s: %w", c.Job.ID, err)
	case found.State.Ended():
		return fmt.Errorf("job %s: %w", c.Job.ID, ErrCancelled)
	}
	return nil
}

// held matches the range or job of the claim, as long as the claim holds.
func (c *Claim) held() bson.D {
	if c.Planning {
		return bson.D{{Key: "_id", Value: c.Job.ID}, leases.Held(c.Epoch), {Key: "state", Value: Planning}}
	}
	return bson.D{{Key: "_id", Value: rangeID(c.Job.ID, c.Job.Epoch, c.Range.Index)}, leases.Held(c.Epoch), {Key: "done", Value: false}}
}

// change updates the range or job of the claim, and checks the job. The error is
// [ErrCancelled] if the job is not running, and [ErrLost] if the claim does not hold.
func (s *Store) change(ctx context.Context, c Claim, update bson.A) error {
	collection := s.ranges
	if c.Planning {
		collection = s.jobs
	}
	matched := int64(0)
	err := s.request(ctx, func(ctx context.Context) error {
		result, err := collection.UpdateOne(ctx, c.held(), update)
		if err == nil {
			matched = result.MatchedCount
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("update range %d of job %s: %w", c.Range.Index, c.Job.ID, err)
	}
	if err := s.check(ctx, c); err != nil {
		return err
	}
	if matched == 0 {
		return fmt.Errorf("range %d of job %s, epoch %d: %w", c.Range.Index, c.Job.ID, c.Epoch, ErrLost)
	}
	return nil
}

// Keep extends the lease. Its errors are those of [Store.Save].
func (s *Store) Keep(ctx context.Context, c Claim, lasts time.Duration) error {
	return s.change(ctx, c, pipeline(bson.D{leases.Renew(lasts)}))
}

// Save stores the progress of the work on a range, and extends the lease. counts are those
// of the range since its start. The error is [ErrLost] if the range has another holder:
// then nothing is stored. It is [ErrCancelled] if the work must stop.
func (s *Store) Save(ctx context.Context, c Claim, position bson.Raw, counts map[string]int64, lasts time.Duration) error {
	return s.change(ctx, c, saved(bson.D{leases.Renew(lasts)}, position, counts))
}

// Return releases a claim. Another process may take it after the delay. failure is the
// reason, which the job shows until the next save; nil for none.
func (s *Store) Return(ctx context.Context, c Claim, delay time.Duration, failure error) error {
	set := bson.D{{Key: "holder", Value: mongox.Literal("")}, leases.Release(delay)}
	if failure != nil {
		set = append(set, bson.E{Key: "attempts", Value: next("attempts")}, bson.E{Key: "reason", Value: mongox.Literal(clip(failure.Error()))})
	}
	return s.change(ctx, c, pipeline(set))
}

// saved adds what a range has reached to an update.
func saved(set bson.D, position bson.Raw, counts map[string]int64) bson.A {
	set = append(set,
		bson.E{Key: "counts", Value: mongox.Literal(counts)},
		bson.E{Key: "savedAt", Value: mongox.Now},
		bson.E{Key: "attempts", Value: mongox.Literal(0)})
	if position != nil {
		set = append(set, bson.E{Key: "position", Value: mongox.Literal(position)})
	}
	return pipeline(set, "reason")
}
