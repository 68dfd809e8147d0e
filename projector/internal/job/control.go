package job

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Get returns a job, with what its ranges have reached if it is running. The error is [ErrNotFound] if there
// is none.
func (s *Store) Get(ctx context.Context, id string) (Job, error) {
	j, err := s.find(ctx, id)
	if err != nil {
		return Job{}, err
	}
	if j.State != Running {
		return j, nil
	}
	if err := s.sum(ctx, &j); err != nil {
		return Job{}, err
	}
	return j, nil
}

// Filter selects jobs. Empty fields mean all.
type Filter struct {
	Kinds       []Kind
	States      []State
	Projections []string
}

// maxList bounds a list.
const maxList = 1000

// List returns at most 1,000 jobs, the newest first. For jobs that have not ended, the
// counts are computed as by [Store.Get]. List leaves out jobs that cannot be read, whose ids
// the log has.
func (s *Store) List(ctx context.Context, f Filter) ([]Job, error) {
	found, err := s.list(ctx, f)
	return found, s.omitted.Report(err, s.options.Logger)
}

// list is List with a [mongox.UnreadableError] if jobs cannot be read.
func (s *Store) list(ctx context.Context, f Filter) ([]Job, error) {
	filter := bson.D{}
	if len(f.Kinds) > 0 {
		filter = append(filter, bson.E{Key: "kind", Value: bson.D{{Key: "$in", Value: f.Kinds}}})
	}
	if len(f.States) > 0 {
		filter = append(filter, bson.E{Key: "state", Value: bson.D{{Key: "$in", Value: f.States}}})
	}
	if len(f.Projections) > 0 {
		filter = append(filter, bson.E{Key: "projection", Value: bson.D{{Key: "$in", Value: f.Projections}}})
	}
	var found []Job
	err := s.request(ctx, func(ctx context.Context) (err error) {
		found, err = mongox.All[Job](ctx, s.jobs)(s.jobs.Find(ctx, filter, options.Find().SetLimit(maxList).
			SetSort(bson.D{{Key: "createdAt", Value: -1}, {Key: "_id", Value: 1}})))
		return err
	})
	unread := err
	if err != nil {
		unread = fmt.Errorf("list jobs: %w", err)
	}
	for i := range found {
		if found[i].State.Ended() {
			continue
		}
		current, err := s.Get(ctx, found[i].ID)
		_, unreadable := errors.AsType[*mongox.UnreadableError](err)
		switch {
		case err == nil:
			found[i] = current
		case unreadable:
			unread = errors.Join(unread, err) // of its ranges
		case !errors.Is(err, ErrNotFound):
			return nil, err
		}
	}
	return found, unread
}

// Cancel cancels a job. Cancelling twice changes nothing.
func (s *Store) Cancel(ctx context.Context, id, reason string) (Job, error) {
	for {
		j, err := s.find(ctx, id)
		if err != nil {
			return Job{}, err
		}
		ended, err := s.end(ctx, j, Cancelled, reason, Planning, Running)
		switch {
		case !errors.Is(err, ErrState):
			return ended, err
		case ended.Epoch != j.Epoch:
			continue // It was planned in between.
		case ended.State == Cancelled:
			return ended, nil
		}
		return ended, err
	}
}

// Supersede cancels every job of the kind for a projection that has not ended, except for the one
// whose id is keep.
func (s *Store) Supersede(ctx context.Context, projection string, kind Kind, keep, reason string) error {
	jobs, err := s.list(ctx, Filter{Kinds: []Kind{kind}, Projections: []string{projection}, States: []State{Planning, Running}})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.ID == keep {
			continue
		}
		if _, err := s.Cancel(ctx, j.ID, reason); err != nil && !errors.Is(err, ErrState) && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// prune deletes the oldest ended jobs of a kind and projection. The newest one that is done stays,
// because it says how old the last success is.
func (s *Store) prune(ctx context.Context, kind Kind, projection string) error {
	var ended []Job
	err := s.request(ctx, func(ctx context.Context) (err error) {
		ended, err = mongox.All[Job](ctx, s.jobs)(s.jobs.Find(ctx,
			bson.D{
				{Key: "kind", Value: kind}, {Key: "projection", Value: projection},
				{Key: "state", Value: bson.D{{Key: "$in", Value: bson.A{Done, Failed, Cancelled}}}},
			},
			options.Find().SetSort(bson.D{{Key: "finishedAt", Value: -1}}).SetLimit(int64(s.options.Keep)+maxList).
				SetProjection(bson.D{{Key: "state", Value: 1}})))
		return err
	})
	if err != nil {
		return fmt.Errorf("find old jobs of %s: %w", projection, err)
	}
	var ids []string
	done := false
	for i, j := range ended {
		if i >= s.options.Keep && (done || j.State != Done) {
			ids = append(ids, j.ID)
		}
		done = done || j.State == Done
	}
	if len(ids) == 0 {
		return nil
	}
	if s.options.Pruned != nil {
		if err := s.options.Pruned(ctx, ids); err != nil {
			return fmt.Errorf("delete what belongs to %d old jobs: %w", len(ids), err)
		}
	}
	if err := s.deleteRanges(ctx, bson.D{{Key: "job", Value: bson.D{{Key: "$in", Value: ids}}}}); err != nil {
		return fmt.Errorf("delete the ranges of %d old jobs: %w", len(ids), err)
	}
	return s.request(ctx, func(ctx context.Context) error {
		_, err := s.jobs.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
		return err
	})
}
