package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

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

// Options configure the workers of a process.
type Options struct {
	Source Source
	// Targets returns the generations that this process serves.
	Targets func() []engine.Target
	Store   Store
	Parking Parking
	// Engine continues aggregates from their watermarks.
	Engine engine.Pager
	// Reachable reports whether the read models' store can be reached; nil means always. If
	// it can, a document that cannot be loaded does not hold the work up.
	Reachable func(ctx context.Context) error
	// Pace bounds the rate of all workers of the process; nil for no bound.
	Pace *Pace
	// Ranges is how many ranges a plan has at most; default 64.
	Ranges int
	// FailureLimit is the share of a range's aggregates that may fail before the work
	// ends with [ErrMostlyFailing]; default 0.2. It counts once 100 have failed.
	FailureLimit float64
	// SaveEvery is the time between two saves of a range's position; default 1 s.
	SaveEvery time.Duration
	// Registerer may be nil: no metrics then.
	Registerer prometheus.Registerer
	Logger     zerolog.Logger
}

// Workers do the jobs of the kinds build and sweep. Make them with [New]. They are safe for
// concurrent use.
type Workers struct {
	Options
	metrics *metrics
	// groupHistories and groupBytes bound a group.
	groupHistories, groupBytes int
}

// New makes workers, and checks the options.
func New(o Options) (*Workers, error) {
	if o.Source == nil || o.Targets == nil || o.Store == nil || o.Parking == nil || o.Engine == nil {
		return nil, errors.New("make refold workers: source, targets, store, parking and engine are required")
	}
	o.Ranges = cmp.Or(o.Ranges, defaultRanges)
	o.FailureLimit = cmp.Or(o.FailureLimit, defaultFailureLimit)
	o.SaveEvery = cmp.Or(o.SaveEvery, defaultSaveEvery)
	if o.Pace == nil {
		o.Pace = NewPace(PaceOptions{})
	}
	return &Workers{
		Options: o, metrics: newMetrics(o.Registerer),
		groupHistories: groupHistories, groupBytes: groupBytes,
	}, nil
}

var _ job.Worker = (*Workers)(nil)

// Plan divides the event store into ranges, and estimates its number of events. An empty
// store has no ranges. The plans of builds and sweeps differ only in the number of ranges,
// if the job has a grace.
func (w *Workers) Plan(ctx context.Context, j job.Job) ([]job.Bounds, int64, error) {
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

// Work builds a range of a job of the kind build, and sweeps that of any other job.
func (w *Workers) Work(ctx context.Context, j job.Job, r job.Range, p job.Progress) error {
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
	grace, err := graceOf(j)
	if err != nil {
		return nil, 0, err
	}
	if _, err := w.target(j); err != nil {
		return nil, 0, err
	}
	since, err := w.Source.OperationTime(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("plan job %s: %w", j.ID, err)
	}
	if total, err = w.Source.Count(ctx); err != nil {
		return nil, 0, fmt.Errorf("plan job %s: %w", j.ID, err)
	}
	limit := w.Ranges
	if grace > 0 {
		limit = min(limit, graceRanges)
	}
	boundaries, err := w.Source.Split(ctx, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("plan job %s: %w", j.ID, err)
	}
	if len(boundaries) == 0 && total == 0 {
		// The count is an estimate, and can be 0 although the store has its first events.
		if empty, err := w.empty(ctx, span{since: since}); err != nil || empty {
			return nil, 0, err
		}
	}
	from := eventstore.Position{}
	for _, boundary := range boundaries {
		spans = append(spans, span{from: from, until: boundary, since: since})
		from = boundary
	}
	return append(spans, span{from: from, since: since}), total, nil
}

// empty reports whether a span has no document.
func (w *Workers) empty(ctx context.Context, s span) (bool, error) {
	cursor, err := w.Source.Open(ctx, s.from, s.until, s.since)
	if cursor == nil || err != nil {
		return cursor == nil, err
	}
	defer w.closeCursor(ctx, cursor)
	_, err = cursor.Next(ctx)
	if errors.Is(err, eventstore.ErrEnd) {
		return true, nil
	}
	return false, err
}

func (w *Workers) closeCursor(ctx context.Context, cursor interface{ Close(context.Context) error }) {
	if err := mongox.CloseCursor(ctx, cursor); err != nil {
		w.Logger.Debug().Err(err).Msg("cursor on the event store not closed cleanly")
	}
}
