package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// beat is the interval between two renewals of the lease, each followed by a check of
	// the sweeps. leaseLasts is how long the lease lasts without a renewal.
	beat       = 5 * time.Second
	leaseLasts = time.Minute
	// retryFailed is the time until a failed sweep is repeated, unless the interval is
	// shorter.
	retryFailed = 10 * time.Minute
)

// Projection is a projection in its live generation.
type Projection struct {
	Name       string
	Generation int64
}

// Progress says how far a sweep has come.
type Progress struct {
	// Unknown is set if there is no such job: the process that stored the sweep's id
	// ended before it created the job, or the job ended long ago and was deleted.
	Unknown bool
	// Ended is set after the sweep has ended. Failed is set if it ended before it had
	// compared every aggregate, for the Reason.
	Ended, Failed bool
	Reason        string
	// Folded is the number of aggregates that were behind and were folded.
	Folded int64
}

// Sweeps are the jobs that compare heads with watermarks.
type Sweeps interface {
	// Live returns the projections that the pipeline keeps up to date.
	Live(ctx context.Context) ([]Projection, error)
	// Start starts a sweep with the id. Starting it again changes nothing.
	Start(ctx context.Context, id string, p Projection) error
	// Progress reads how far a sweep has come. An error is reported, and the sweep is asked
	// for again at the next beat.
	Progress(ctx context.Context, id string) (Progress, error)
}

// Options configure a [Reconciler].
type Options struct {
	// Interval is the time between two sweeps of a projection; default 1 h.
	Interval time.Duration
	// Records has the lease, which one process of the pipeline holds.
	Records *Store
	Sweeps  Sweeps
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	Logger     zerolog.Logger
}

// Reconciler sweeps the projections of a pipeline. Make it with [New].
type Reconciler struct {
	options Options
	metrics *metrics
	// failing is the error of the last beat.
	failing atomic.Pointer[error]
}

// New makes a reconciler.
func New(o Options) *Reconciler {
	o.Interval = cmp.Or(o.Interval, time.Hour)
	return &Reconciler{options: o, metrics: newMetrics(o.Registerer)}
}

// Run reconciles while it holds the lease, until ctx ends; then it returns nil. A failure
// is logged, and the metric of the verified time stops advancing.
func (r *Reconciler) Run(ctx context.Context) error {
	timer := time.NewTimer(rand.N(beat))
	defer timer.Stop()
	holds := false
	for {
		select {
		case <-ctx.Done():
			if holds {
				r.release(ctx)
			}
			return nil
		case <-timer.C:
		}
		held, err := r.beat(ctx)
		holds = held
		r.report(ctx, err)
		timer.Reset(beat - beat/8 + rand.N(beat/4))
	}
}

// report logs the first of consecutive failures, and the recovery.
func (r *Reconciler) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		if r.failing.Swap(&err) != nil {
			return
		}
		r.options.Logger.Warn().Err(err).Msg("read models not reconciled; retrying")
	case r.failing.Swap(nil) != nil:
		r.options.Logger.Info().Msg("read models are reconciled again")
	}
}

// Err returns why read models are not reconciled at present; nil if they are, or if another
// process holds the lease.
func (r *Reconciler) Err() error {
	if err := r.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// beat renews the lease and advances every sweep by one step. It reports whether this
// process holds the lease.
func (r *Reconciler) beat(ctx context.Context) (held bool, err error) {
	held, err = r.options.Records.Hold(ctx, leaseLasts)
	if err != nil {
		return false, fmt.Errorf("hold the lease: %w", err)
	}
	live, err := r.options.Sweeps.Live(ctx)
	if err != nil {
		return held, fmt.Errorf("list the projections: %w", err)
	}
	records, err := r.records(ctx, live)
	if err != nil {
		return held, err
	}
	r.metrics.show(records)
	if !held {
		return false, nil
	}
	var problems []error
	for _, record := range records {
		if err := r.step(ctx, record); err != nil {
			problems = append(problems, fmt.Errorf("sweep projection %s: %w", record.Projection.Name, err))
		}
	}
	return true, errors.Join(problems...)
}

// records returns a record for each live projection. A stored record of another
// generation is ignored.
func (r *Reconciler) records(ctx context.Context, live []Projection) ([]Record, error) {
	stored, err := r.options.Records.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the records: %w", err)
	}
	records := make([]Record, len(live))
	for i, p := range live {
		records[i] = Record{Projection: p, Due: true}
		for _, s := range stored {
			if s.Projection == p {
				records[i] = s
			}
		}
	}
	return records, nil
}

// step advances the sweep of a projection by one step.
func (r *Reconciler) step(ctx context.Context, known Record) error {
	p := known.Projection
	if known.Sweep == "" {
		if !known.Due {
			return nil
		}
		id := fmt.Sprintf("reconcile-%s-%d-%s", p.Name, p.Generation, bson.NewObjectID().Hex())
		began, err := r.options.Records.Begin(ctx, p, id, known)
		if err != nil || !began {
			return err
		}
		return r.options.Sweeps.Start(ctx, id, p)
	}
	progress, err := r.options.Sweeps.Progress(ctx, known.Sweep)
	if err != nil {
		return err
	}
	switch {
	case progress.Unknown:
		return r.options.Sweeps.Start(ctx, known.Sweep, p)
	case !progress.Ended:
		return nil
	case progress.Failed:
		r.options.Logger.Warn().Str("projection", p.Name).Str("sweep", known.Sweep).Str("reason", progress.Reason).Msg("sweep ended before it had read every aggregate")
		return r.options.Records.End(ctx, p, known.Sweep, false, min(retryFailed, r.options.Interval))
	}
	if progress.Folded > 0 {
		r.options.Logger.Warn().Str("projection", p.Name).Int64("aggregates", progress.Folded).Msg("aggregates were behind the event store and were folded from it")
	}
	r.metrics.folded(p.Name, progress.Folded)
	return r.options.Records.End(ctx, p, known.Sweep, true, r.options.Interval)
}

// releaseTimeout bounds the release of the lease at the end.
const releaseTimeout = time.Second

// release ends the lease, so that another process can take it at once.
func (r *Reconciler) release(ctx context.Context) {
	ctx, cancel := mongox.Timeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := r.options.Records.Release(ctx); err != nil {
		r.options.Logger.Debug().Err(err).Msg("lease of the reconciler not released; it expires")
	}
}
