package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/refold"
)

// refoldParams are the parameters of a sweep.
type refoldParams struct {
	// GraceMillis is how long an aggregate may be behind before it is folded.
	GraceMillis int64 `bson:"graceMillis"`
}

// refoldWorkers adapts the refold's workers to the job runner.
func refoldWorkers(o refold.Options) (map[job.Kind]job.Worker, error) {
	workers, err := refold.New(o)
	if err != nil {
		return nil, err
	}
	return map[job.Kind]job.Worker{
		job.Build: refoldWorker{workers, workers.Build},
		job.Sweep: refoldWorker{workers, workers.Sweep},
	}, nil
}

// refoldWorker is the worker of one kind.
type refoldWorker struct {
	workers *refold.Workers
	work    func(context.Context, refold.Job, refold.Range, refold.Progress) error
}

var _ job.Worker = refoldWorker{}

// refoldFrom is the lower bound of a range, with the time that every read of the range must
// include.
type refoldFrom struct {
	At    eventstore.Position `bson:"at"`
	Since bson.Timestamp      `bson:"since"`
}

// Plan divides the event store into ranges.
func (w refoldWorker) Plan(ctx context.Context, j job.Job) ([]job.Bounds, int64, error) {
	planned, err := refoldJob(j)
	if err != nil {
		return nil, 0, err
	}
	ranges, total, err := w.workers.Plan(ctx, planned)
	if err != nil {
		return nil, 0, refoldError(err)
	}
	bounds := make([]job.Bounds, len(ranges))
	for i, r := range ranges {
		if bounds[i].From, err = bson.Marshal(refoldFrom{At: r.From, Since: r.Since}); err != nil {
			return nil, 0, fmt.Errorf("store a range of job %s: %w", j.ID, err)
		}
		if bounds[i].To, err = bson.Marshal(r.Until); err != nil {
			return nil, 0, fmt.Errorf("store a range of job %s: %w", j.ID, err)
		}
	}
	return bounds, total, nil
}

// Work works on a range.
func (w refoldWorker) Work(ctx context.Context, j job.Job, r job.Range, p job.Progress) error {
	working, err := refoldJob(j)
	if err != nil {
		return err
	}
	rng := refold.Range{Counts: r.Counts}
	var from refoldFrom
	if err := bson.Unmarshal(r.From, &from); err != nil {
		return job.Permanent(fmt.Errorf("read range %d of job %s: %w", r.Index, j.ID, err))
	}
	rng.From, rng.Since = from.At, from.Since
	for _, bound := range []struct {
		from bson.Raw
		to   *eventstore.Position
	}{{r.To, &rng.Until}, {r.Position, &rng.Position}} {
		if bound.from == nil {
			continue
		}
		if err := bson.Unmarshal(bound.from, bound.to); err != nil {
			return job.Permanent(fmt.Errorf("read range %d of job %s: %w", r.Index, j.ID, err))
		}
	}
	return refoldError(w.work(ctx, working, rng, refoldProgress{p}))
}

func refoldJob(j job.Job) (refold.Job, error) {
	var params refoldParams
	if j.Params != nil {
		if err := bson.Unmarshal(j.Params, &params); err != nil {
			return refold.Job{}, job.Permanent(fmt.Errorf("read the parameters of job %s: %w", j.ID, err))
		}
	}
	return refold.Job{
		ID: j.ID, Projection: j.Projection, Generation: j.Generation,
		Grace: time.Duration(params.GraceMillis) * time.Millisecond,
	}, nil
}

// refoldError translates an error of the refold to the runner's errors.
func refoldError(err error) error {
	switch {
	case errors.Is(err, refold.ErrUnknownTarget), errors.Is(err, model.ErrSuperseded):
		return fmt.Errorf("%w: %w", job.ErrNotHere, err)
	case errors.Is(err, refold.ErrMostlyFailing), errors.Is(err, eventstore.ErrIndex):
		return job.Permanent(err)
	}
	return err
}

// refoldProgress stores positions as BSON.
type refoldProgress struct{ progress job.Progress }

func (p refoldProgress) Save(ctx context.Context, position eventstore.Position, counts map[string]int64) error {
	raw, err := bson.Marshal(position)
	if err != nil {
		return fmt.Errorf("store the position of a range: %w", err)
	}
	return p.progress.Save(ctx, raw, counts)
}

// refoldTargets adapts the engine's targets to the refold.
type refoldTargets struct{ targets func() []engine.Target }

func (t refoldTargets) Target(projection string, generation int64) (refold.Target, error) {
	for _, target := range t.targets() {
		if target.Projection.Name() == projection && target.Generation == max(generation, model.FirstGeneration) {
			return refoldTarget{target}, nil
		}
	}
	return nil, fmt.Errorf("projection %s, generation %d: %w", projection, generation, refold.ErrUnknownTarget)
}

// refoldTarget adapts one target.
type refoldTarget struct{ engine.Target }

func (t refoldTarget) Unit(aggregateID string) model.Unit {
	return model.Unit{
		Projection: t.Projection.Name(), Generation: t.Generation, Collection: t.Collection,
		AggregateID: aggregateID, Deletes: t.Projection.Deletes(),
	}
}

func (t refoldTarget) Concerns(ev *event.Event) bool { return t.Projection.Concerns(ev) }

func (t refoldTarget) Begin() refold.Fold { return refoldFold{t.Projection.Begin(nil, 0)} }

// refoldFold is a fold that begins without a document.
type refoldFold struct{ *projection.Accumulator }

func (f refoldFold) Add(events []*event.Event) bool { return f.Accumulator.Add(events) == nil }

func (f refoldFold) Write(unit model.Unit) (model.Write, bool) {
	return f.Accumulator.Write(unit, model.State{})
}
