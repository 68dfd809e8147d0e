package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// beat is how often the lease is renewed and the sweeps are looked at. lease is how
	// long it holds without a sign of life: longer than a pass over the dead letters.
	beat  = 5 * time.Second
	lease = time.Minute
	// healEvery is the shortest time between two passes over the dead-letter queue.
	healEvery = time.Minute
	// retryFailed is when a sweep that failed is due again, unless the interval is
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
	// Unknown says that nobody knows the sweep: the process that wanted to start it died,
	// or it ended so long ago that it was deleted.
	Unknown bool
	// Ended is whether it is over, and Failed whether it ended without having seen
	// everything: Reason says why.
	Ended, Failed bool
	Reason        string
	// Folded are the aggregates that were behind.
	Folded int64
}

// Sweeps are the jobs that compare heads with watermarks.
type Sweeps interface {
	// Live gives the projections that are kept up to date.
	Live(ctx context.Context) ([]Projection, error)
	// Start starts a sweep with the id. To start it again changes nothing.
	Start(ctx context.Context, id string, p Projection) error
	// Progress reads how far a sweep has come.
	Progress(ctx context.Context, id string) (Progress, error)
}

// DeadLetters heals the dead-letter queue.
type DeadLetters interface {
	// Heal makes one pass and gives the number of messages removed.
	Heal(ctx context.Context) (removed int, err error)
	// Close ends its connection.
	Close()
}

// Records keep what a reconciler knows across processes.
type Records interface {
	// Hold takes or renews the lease; false if another process has it.
	Hold(ctx context.Context, lease time.Duration) (bool, error)
	// Release gives the lease back.
	Release(ctx context.Context) error
	// Read gives the records of all projections.
	Read(ctx context.Context) ([]Record, error)
	// Begin stores that a sweep of p with the id begins now, unless the record is not the
	// one that was read: then the result is false.
	Begin(ctx context.Context, p Projection, id string, read Record) (bool, error)
	// End stores that the sweep with the id has ended. verified is whether it has seen
	// everything. The next one is due after a wait.
	End(ctx context.Context, p Projection, id string, verified bool, wait time.Duration) error
}

// Record is what is known of a projection. The zero value, but for the name, is one that
// was never swept.
type Record struct {
	Projection Projection
	// Sweep is the id of the sweep that is under way; empty if none is.
	Sweep string
	// Due is whether the time of the next sweep has come, by the server's clock.
	Due bool
	// Through is when the last sweep that saw everything began; zero if none has.
	Through time.Time
}

// Options configure a [Reconciler].
type Options struct {
	// Interval is the time between two sweeps of a projection; default 1 h.
	Interval time.Duration
	Records  Records
	Sweeps   Sweeps
	// DeadLetters may be nil.
	DeadLetters DeadLetters
	// Paused reports whether nothing may begin: nothing is swept or healed then. nil means
	// never.
	Paused func() bool
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	Logger     zerolog.Logger
}

// Reconciler sweeps the projections of a pipeline. Make it with [New].
type Reconciler struct {
	options Options
	metrics *metrics
	// healed is when the last pass over the dead letters ended; failing is whether the
	// last beat failed. Both are Run's.
	healed  time.Time
	failing bool
}

// New makes a reconciler.
func New(o Options) (*Reconciler, error) {
	if o.Records == nil || o.Sweeps == nil {
		return nil, errors.New("reconcile: Records and Sweeps are required")
	}
	o.Interval = cmp.Or(o.Interval, time.Hour)
	return &Reconciler{options: o, metrics: newMetrics(o.Registerer)}, nil
}

// Run reconciles while it holds the lease, until ctx ends; then it returns nil. A failure
// shows in the log and by the metric of what is verified, which stands still.
func (r *Reconciler) Run(ctx context.Context) error {
	if r.options.DeadLetters != nil {
		defer r.options.DeadLetters.Close()
	}
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
		if r.options.Paused == nil || !r.options.Paused() {
			held, err := r.beat(ctx)
			holds = held
			r.report(ctx, err)
		}
		timer.Reset(beat - beat/8 + rand.N(beat/4))
	}
}

// report logs the first of several failures.
func (r *Reconciler) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !r.failing:
		r.failing = true
		r.options.Logger.Warn().Err(err).Msg("read models not reconciled; retrying")
	case err == nil && r.failing:
		r.failing = false
		r.options.Logger.Info().Msg("read models are reconciled again")
	}
}

// beat renews the lease and takes every sweep a step further. It reports whether this
// process holds the lease.
func (r *Reconciler) beat(ctx context.Context) (held bool, err error) {
	held, err = r.options.Records.Hold(ctx, lease)
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
	if err := r.heal(ctx); err != nil {
		problems = append(problems, fmt.Errorf("heal dead letters: %w", err))
	}
	return true, errors.Join(problems...)
}

// records gives a record for each live projection. What is known of another generation
// says nothing about this one.
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

// step takes the sweep of a projection a step further.
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
		r.options.Logger.Warn().Str("projection", p.Name).Str("sweep", known.Sweep).Str("reason", progress.Reason).Msg("sweep ended before it had seen everything")
		return r.options.Records.End(ctx, p, known.Sweep, false, min(retryFailed, r.options.Interval))
	}
	if progress.Folded > 0 {
		r.options.Logger.Warn().Str("projection", p.Name).Int64("aggregates", progress.Folded).Msg("aggregates were behind the event store and were folded from it")
	}
	r.metrics.folded(p.Name, progress.Folded)
	return r.options.Records.End(ctx, p, known.Sweep, true, r.options.Interval)
}

// heal makes a pass over the dead letters if it is time.
func (r *Reconciler) heal(ctx context.Context) error {
	if r.options.DeadLetters == nil || !r.healed.IsZero() && time.Since(r.healed) < min(healEvery, r.options.Interval) {
		return nil
	}
	removed, err := r.options.DeadLetters.Heal(ctx)
	if err != nil || removed == 0 {
		// Otherwise there may be more to remove.
		r.healed = time.Now()
	}
	return err
}

// releaseTimeout bounds giving the lease back at the end.
const releaseTimeout = time.Second

// release gives the lease back, so that another process goes on at once.
func (r *Reconciler) release(ctx context.Context) {
	ctx, cancel := mongox.Timeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := r.options.Records.Release(ctx); err != nil {
		r.options.Logger.Debug().Err(err).Msg("lease of the reconciler not given back; it will expire")
	}
}
