package history

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// defaultRanges is the number of ranges of a plan. It is much larger than the number of
	// processes, so that they finish at about the same time and a lost range costs little.
	defaultRanges = 64
	// verificationRanges is that number for a verification.
	verificationRanges = 16
	// graceRanges is the number of ranges of a job with a grace. Each range waits for the
	// grace once if any of its aggregates is behind, and occupies a worker meanwhile. So
	// few ranges are faster than many.
	graceRanges = 4
	// defaultSaveEvery is how often the position of a range is saved.
	defaultSaveEvery = time.Second
	// defaultFailureLimit is that of the live stream.
	defaultFailureLimit = 0.2
	// readTimeout bounds one request to the event store.
	readTimeout = 2 * time.Minute
)

var _ job.Worker = (*Workers)(nil)

// verifies reports whether a job compares the content of read models: a verification, or a
// periodic sweep that was started as one. The setting may be another one now than at its start.
func verifies(j job.Job) (bool, error) {
	if j.Kind == job.Verify {
		return true, nil
	}
	p, err := readParams(j)
	return j.Kind == job.Reconcile && p.Repair, err
}

// Plan divides the event store into ranges, and estimates its number of events. The plans of builds and sweeps differ only in the number of ranges,
// if the job has a grace.
func (w *Workers) Plan(ctx context.Context, j job.Job) ([]job.Bounds, int64, error) {
	if verifies, err := verifies(j); err != nil {
		return nil, 0, err
	} else if verifies {
		ranges, total, err := w.planVerification(ctx, j)
		return ranges, total, asJob(err)
	}
	spans, total, err := w.plan(ctx, j)
	if err != nil {
		return nil, 0, asJob(err)
	}
	bounds := make([]job.Bounds, len(spans))
	for i, s := range spans {
		if bounds[i], err = s.encode(j.ID); err != nil {
			return nil, 0, err
		}
	}
	return bounds, total, nil
}

// Work does a range of a job.
func (w *Workers) Work(ctx context.Context, j job.Job, r job.Range, p job.Progress) error {
	if verifies, err := verifies(j); err != nil {
		return err
	} else if verifies {
		return asJob(w.verify(ctx, j, r, p))
	}
	s, err := decode(j, r)
	if err != nil {
		return err
	}
	if j.Kind == job.Build {
		return asJob(w.build(ctx, j, s, p))
	}
	return asJob(w.sweep(ctx, j, s, p))
}

// target returns the target of a job.
func (w *Workers) target(j job.Job) (*engine.Target, error) {
	for _, t := range w.Targets() {
		if t.Projection.Name() == j.Projection && t.Generation == max(j.Generation, model.FirstGeneration) {
			return &t, nil
		}
	}
	return nil, fmt.Errorf("projection %s, generation %d: %w", j.Projection, j.Generation, ErrUnknownTarget)
}

func (w *Workers) plan(ctx context.Context, j job.Job) (spans []span, total int64, err error) {
	params, err := readParams(j)
	if err != nil {
		return nil, 0, err
	}
	if _, err := w.target(j); err != nil {
		return nil, 0, err
	}
	since, err := w.Events.OperationTime(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("plan job %s: %w", j.ID, err)
	}
	if total, err = w.Events.Count(ctx); err != nil {
		return nil, 0, fmt.Errorf("plan job %s: %w", j.ID, err)
	}
	limit := cmp.Or(w.Ranges, defaultRanges)
	if params.GraceMillis > 0 {
		limit = min(limit, graceRanges)
	}
	boundaries, err := w.Events.Split(ctx, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("plan job %s: %w", j.ID, err)
	}
	from := eventstore.Position{}
	for _, boundary := range boundaries {
		spans = append(spans, span{from: from, until: boundary, since: since})
		from = boundary
	}
	return append(spans, span{from: from, since: since}), total, nil
}

func (w *Workers) closeCursor(ctx context.Context, cursor interface{ Close(context.Context) error }) {
	if err := mongox.CloseCursor(ctx, cursor); err != nil {
		w.Logger.Debug().Err(err).Msg("cursor on the event store not closed cleanly")
	}
}
