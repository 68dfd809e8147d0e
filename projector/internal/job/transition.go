package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// rangeID is the _id of a range.
func rangeID(job string, plan int64, index int) string {
	return fmt.Sprintf("%s/%d/%d", job, plan, index)
}

// insertPage bounds the ranges of one request.
const insertPage = 500

// Plan stores the ranges of a job whose planning was claimed, and starts it. A job
// without ranges is done at once. The error is as in [Store.Save].
func (s *Store) Plan(ctx context.Context, c Claim, parts []bson.Raw, total int64) error {
	if len(parts) > maxRanges {
		return s.Fail(ctx, c, fmt.Errorf("the plan has %d ranges: at most %d are allowed", len(parts), maxRanges))
	}
	inserts := make([]mongo.WriteModel, len(parts))
	for i, part := range parts {
		inserts[i] = mongo.NewInsertOneModel().SetDocument(bson.D{
			{Key: "_id", Value: rangeID(c.Job.ID, c.Epoch, i)},
			{Key: "job", Value: c.Job.ID}, {Key: "plan", Value: c.Epoch}, {Key: "index", Value: i},
			{Key: "part", Value: part},
			{Key: "epoch", Value: int64(0)}, {Key: "leaseUntil", Value: time.Unix(0, 0)}, {Key: "done", Value: false}, {Key: "attempts", Value: 0},
		})
	}
	for page := range slices.Chunk(inserts, insertPage) {
		// If the answer to an earlier attempt was lost, the ranges already exist.
		if err := s.request(ctx, func(ctx context.Context) error {
			_, err := s.ranges.BulkWrite(ctx, page, options.BulkWrite().SetOrdered(false))
			if mongo.IsDuplicateKeyError(err) {
				err = nil
			}
			return err
		}); err != nil {
			return fmt.Errorf("store %d ranges of job %s: %w", len(parts), c.Job.ID, err)
		}
	}
	set := bson.D{
		{Key: "state", Value: mongox.Literal(Running)},
		{Key: "total", Value: mongox.Literal(total)}, {Key: "ranges", Value: mongox.Literal(len(parts))},
		{Key: "startedAt", Value: mongox.Now}, {Key: "progressedAt", Value: mongox.Now}, {Key: "attempts", Value: mongox.Literal(0)},
	}
	if err := s.change(ctx, c, pipeline(set, "holder", "reason")); err != nil {
		// The plan may be stored nevertheless, for example if only the answer was lost.
		// Without its ranges, the job would be done without any work. So the ranges stay.
		return err
	}
	if err := s.deleteRanges(ctx, bson.D{{Key: "job", Value: c.Job.ID}, {Key: "plan", Value: bson.D{{Key: "$lt", Value: c.Epoch}}}}); err != nil {
		s.options.Logger.Warn().Err(err).Str("job", c.Job.ID).Msg("ranges of earlier plans not deleted; they are deleted with the job")
	}
	if len(parts) > 0 {
		return nil
	}
	j := c.Job
	j.State, j.Ranges = Running, 0
	return s.completeIfFinished(ctx, j)
}

// Finish stores that a range is finished, with its counts. The last range completes the
// job. The error is as in [Store.Save].
func (s *Store) Finish(ctx context.Context, c Claim, counts map[string]int64) error {
	if err := s.change(ctx, c, saved(bson.D{{Key: "done", Value: true}, {Key: "holder", Value: mongox.Literal("")}}, nil, counts)); err != nil {
		return err
	}
	return s.completeIfFinished(ctx, c.Job)
}

// Complete ends a small job whose planning was claimed and whose ranges are finished, with the sum
// of their counts. That is right even if another process has the claim by now: all of the work is
// done. The error is [ErrLost] if the job is no longer being planned.
func (s *Store) Complete(ctx context.Context, c Claim, ranges int, total int64, counts map[string]int64) error {
	set := bson.D{
		{Key: "state", Value: mongox.Literal(Done)}, {Key: "attempts", Value: mongox.Literal(0)},
		{Key: "startedAt", Value: mongox.Now}, {Key: "progressedAt", Value: mongox.Now}, {Key: "finishedAt", Value: mongox.Now},
		{Key: "total", Value: mongox.Literal(total)}, {Key: "counts", Value: mongox.Literal(counts)},
		{Key: "ranges", Value: mongox.Literal(ranges)}, {Key: "rangesDone", Value: mongox.Literal(ranges)},
	}
	found, err := s.move(ctx, c.Job.ID, bson.E{}, pipeline(set, "holder", "reason"), Planning)
	switch {
	case errors.Is(err, ErrState):
		return ErrLost
	case err != nil:
		return err
	}
	s.ended(ctx, found)
	return nil
}

// errRanges is the reason of a job whose ranges are missing.
var errRanges = errors.New("ranges of the job are missing in the collection job_ranges: cancel the job, and start the work again")

// completeIfFinished ends a running job that has no unfinished range. If ranges are missing,
// the job fails.
func (s *Store) completeIfFinished(ctx context.Context, j Job) error {
	err := s.request(ctx, func(ctx context.Context) error {
		return s.ranges.FindOne(ctx, bson.D{{Key: "job", Value: j.ID}, {Key: "plan", Value: j.Epoch}, {Key: "done", Value: false}},
			options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	})
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, mongo.ErrNoDocuments):
		return fmt.Errorf("look for open ranges of job %s: %w", j.ID, err)
	}
	// Somebody may have deleted the ranges, or restored the jobs without them.
	if err := s.sum(ctx, &j); err != nil {
		return err
	}
	state, reason := Done, ""
	if j.RangesDone < j.Ranges {
		state, reason = Failed, errRanges.Error()
	}
	_, err = s.end(ctx, j, state, reason, Running)
	if errors.Is(err, ErrState) {
		// Another process has completed the job and deleted its ranges.
		return nil
	}
	return err
}

// Fail ends the claim's job with a reason. The error is as in [Store.Save].
func (s *Store) Fail(ctx context.Context, c Claim, reason error) error {
	// The claim must still hold: a process that has lost its range must not fail the job.
	if err := s.change(ctx, c, pipeline(bson.D{{Key: "reason", Value: mongox.Literal(clip(reason.Error()))}})); err != nil {
		return err
	}
	_, err := s.end(ctx, c.Job, Failed, reason.Error(), Planning, Running)
	return err
}

// end ends a job that is in one of the states from, under the plan of j, and returns it.
// Otherwise the error is [ErrState], and end returns the job as found.
func (s *Store) end(ctx context.Context, j Job, state State, reason string, from ...State) (Job, error) {
	if err := s.sum(ctx, &j); err != nil {
		return Job{}, err
	}
	set := bson.D{
		{Key: "state", Value: mongox.Literal(state)}, {Key: "finishedAt", Value: mongox.Now}, {Key: "progressedAt", Value: mongox.Now},
		{Key: "counts", Value: mongox.Literal(j.Counts)}, {Key: "rangesDone", Value: mongox.Literal(j.RangesDone)},
	}
	unset := []string{"holder"}
	if reason == "" {
		unset = append(unset, "reason")
	} else {
		set = append(set, bson.E{Key: "reason", Value: mongox.Literal(clip(reason))})
	}
	ended, err := s.move(ctx, j.ID, bson.E{Key: "epoch", Value: j.Epoch}, pipeline(set, unset...), from...)
	if err != nil {
		return ended, err
	}
	s.ended(ctx, ended)
	return ended, nil
}

// ended logs the end of a job, and deletes its ranges and the oldest jobs of its kind.
func (s *Store) ended(ctx context.Context, j Job) {
	level := zerolog.InfoLevel
	if j.State == Failed {
		level = zerolog.WarnLevel
	}
	s.options.Logger.WithLevel(level).Str("job", j.ID).Str("kind", string(j.Kind)).Str("projection", j.Projection).
		Int64("generation", j.Generation).Str("state", string(j.State)).Str("reason", j.Reason).Msg("job ended")
	if err := s.deleteRanges(ctx, bson.D{{Key: "job", Value: j.ID}}); err != nil {
		s.options.Logger.Warn().Err(err).Str("job", j.ID).Msg("ranges of an ended job not deleted; they are deleted with the job")
	}
	if err := s.prune(ctx, j.Kind, j.Projection); err != nil {
		s.options.Logger.Warn().Err(err).Msg("old jobs not deleted; retrying when the next one ends")
	}
}

// move changes a job that is in one of the states from, and returns the changed job.
func (s *Store) move(ctx context.Context, id string, and bson.E, update bson.A, from ...State) (Job, error) {
	filter := bson.D{{Key: "_id", Value: id}, {Key: "state", Value: bson.D{{Key: "$in", Value: from}}}}
	if and.Key != "" {
		filter = append(filter, and)
	}
	var moved Job
	err := s.request(ctx, func(ctx context.Context) error {
		return s.jobs.FindOneAndUpdate(ctx, filter, update, options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&moved)
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		found, err := s.find(ctx, id)
		if err != nil {
			return Job{}, err
		}
		return found, fmt.Errorf("end job %s, which is %s: %w", id, found.State, ErrState)
	}
	if err != nil {
		return Job{}, fmt.Errorf("change job %s: %w", id, err)
	}
	return moved, nil
}

// sum adds what a job's ranges have reached: the sum of their counts, how many are finished, when the
// last one was saved, and the error of a range that is retried.
func (s *Store) sum(ctx context.Context, j *Job) error {
	j.Counts, j.RangesDone = make(map[string]int64), 0
	err := s.request(ctx, func(ctx context.Context) error {
		ranges, err := mongox.All[Range](ctx, s.ranges)(s.ranges.Find(ctx, bson.D{{Key: "job", Value: j.ID}, {Key: "plan", Value: j.Epoch}},
			options.Find().SetProjection(bson.D{{Key: "counts", Value: 1}, {Key: "done", Value: 1}, {Key: "reason", Value: 1}, {Key: "savedAt", Value: 1}}).SetBatchSize(maxRanges)))
		if err != nil {
			return err
		}
		for _, r := range ranges {
			for name, n := range r.Counts {
				j.Counts[name] += n
			}
			if r.Done {
				j.RangesDone++
			}
			if r.Saved.After(j.Progressed) {
				j.Progressed = r.Saved
			}
			j.Reason = cmp.Or(j.Reason, r.Reason)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("add up the ranges of job %s: %w", j.ID, err)
	}
	return err
}

func (s *Store) deleteRanges(ctx context.Context, filter bson.D) error {
	return s.request(ctx, func(ctx context.Context) error {
		_, err := s.ranges.DeleteMany(ctx, filter)
		return err
	})
}

// clip cuts a text to at most maxReason bytes.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxReason)], "") }
