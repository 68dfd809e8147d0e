package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

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

// Plan divides the event store into ranges, and estimates its number of events.
func (w *Workers) Plan(ctx context.Context, j job.Job) ([]bson.Raw, int64, error) {
	spans, total, err := w.plan(ctx, j)
	if err != nil {
		return nil, 0, asJob(fmt.Errorf("plan job %s: %w", j.ID, err))
	}
	parts := make([]bson.Raw, len(spans))
	for i, s := range spans {
		if parts[i], err = bson.Marshal(s); err != nil {
			return nil, 0, fmt.Errorf("store a range of job %s: %w", j.ID, err)
		}
	}
	return parts, total, nil
}

// Work does a range of a job.
func (w *Workers) Work(ctx context.Context, j job.Job, r job.Range, p job.Progress) error {
	verifies, err := verifies(j)
	if err != nil {
		return err
	}
	s, err := decode(j, r)
	if err != nil {
		return err
	}
	switch {
	case verifies:
		err = w.verify(ctx, j, s, p)
	case j.Kind == job.Build:
		err = w.build(ctx, j, s, p)
	default:
		err = w.sweep(ctx, j, s, p)
	}
	return asJob(err)
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

// Serves reports whether this process can do a job: it must serve the generation. A verification of its
// own pipeline needs the catalog alone. A verification whose generation is gone, and a job that cannot
// be read, are served too, because only a job that is claimed can fail.
func (w *Workers) Serves(ctx context.Context, j job.Job) bool {
	if _, err := w.target(j); err == nil {
		return true
	}
	if verifies, err := verifies(j); err != nil || !verifies {
		return err != nil
	}
	_, err := w.Target(ctx, j.Projection, j.Generation)
	return !errors.Is(err, job.ErrNotHere)
}

// plan makes the spans of a job. A verification walks over the documents and the side watermarks
// too.
func (w *Workers) plan(ctx context.Context, j job.Job) (spans []span, total int64, err error) {
	params, err := readParams(j)
	if err != nil {
		return nil, 0, err
	}
	// The event store can have been empty at the start.
	if err := w.Events.CheckFirstID(ctx); err != nil {
		return nil, 0, err
	}
	verifies, err := verifies(j)
	if err != nil {
		return nil, 0, err
	}
	limit, since := cmp.Or(w.Ranges, defaultRanges), bson.Timestamp{}
	if verifies {
		// If this process cannot fold the projection, its events may be in another store.
		target, err := w.Target(ctx, j.Projection, j.Generation)
		if err != nil {
			return nil, 0, err
		}
		if params.Aggregate != "" {
			return []span{{Direction: single}}, 0, nil
		}
		limit, spans = cmp.Or(w.Ranges, verificationRanges), []span{{Direction: documents}, {Direction: watermarks}}
		if target.Projection.View() != nil {
			spans = append(spans, span{Direction: absent})
		}
	} else {
		if _, err := w.target(j); err != nil {
			return nil, 0, err
		}
		if params.GraceMillis > 0 {
			limit = min(limit, graceRanges)
		}
		if since, err = w.Events.OperationTime(ctx); err != nil {
			return nil, 0, err
		}
	}
	if total, err = w.Events.Count(ctx); err != nil {
		return nil, 0, err
	}
	boundaries, err := w.Events.Split(ctx, limit)
	if err != nil {
		return nil, 0, err
	}
	from := eventstore.Position{}
	for _, until := range append(boundaries, eventstore.Position{}) {
		spans = append(spans, span{Direction: forward, From: from, Until: until, Since: since})
		from = until
	}
	return spans, total, nil
}

func (w *Workers) closeCursor(ctx context.Context, cursor interface{ Close(context.Context) error }) {
	if err := mongox.CloseCursor(ctx, cursor); err != nil {
		w.Logger.Debug().Err(err).Msg("cursor on the event store not closed cleanly")
	}
}
