package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/reconcile"
)

// sweepGrace is how long an aggregate may be behind the event store before a sweep folds
// it. Events need that time to come over the topic. A shorter interval has a shorter grace.
const sweepGrace = 30 * time.Second

// reconciler makes the reconciler, with which the read models converge whatever the broker
// does.
func (p *Projector) reconciler(h *upkeep) *reconcile.Reconciler {
	interval := time.Duration(p.config.History.Reconcile)
	return reconcile.New(reconcile.Options{
		Interval: interval,
		Records:  h.records,
		Sweeps: sweeps{
			jobs: h.jobs, who: "reconciler on " + h.pod, grace: min(sweepGrace, interval),
			content: p.config.History.ReconcileContent,
			entries: h.follower.Projections,
		},
		Registerer: p.registry,
		Logger:     p.logger,
	})
}

// sweeps adapts the job store to the reconciler.
type sweeps struct {
	jobs *job.Store
	// entries returns those of the catalog.
	entries func() map[string]*catalog.Entry
	// who names this process in lists of jobs.
	who string
	// grace is how long an aggregate may be behind.
	grace time.Duration
	// content says that the verification worker does new sweeps: it compares the content of the
	// read models and repairs it. The sweep worker only compares their watermarks with the last
	// events.
	content bool
}

var _ reconcile.Sweeps = sweeps{}

// sweepWorker does the sweeps of both forms. The parameters of a sweep say which form it
// has, because the setting may be another one now than at its start, or in another
// Deployment.
type sweepWorker struct{ watermarks, content job.Worker }

var _ job.Worker = sweepWorker{}

func (w sweepWorker) of(j job.Job) (job.Worker, error) {
	content, err := comparesContent(j)
	if err != nil {
		return nil, job.Permanent(err)
	}
	if content {
		return w.content, nil
	}
	return w.watermarks, nil
}

// comparesContent reports whether a sweep has the form of the verification worker.
func comparesContent(j job.Job) (bool, error) {
	var params history.VerifyParams
	if err := bson.Unmarshal(j.Params, &params); err != nil {
		return false, fmt.Errorf("read the parameters of job %s: %w", j.ID, err)
	}
	return params.Repair, nil
}

// Plan is Plan of the sweep's form.
func (w sweepWorker) Plan(ctx context.Context, j job.Job) ([]job.Bounds, int64, error) {
	worker, err := w.of(j)
	if err != nil {
		return nil, 0, err
	}
	return worker.Plan(ctx, j)
}

// Work is Work of the sweep's form.
func (w sweepWorker) Work(ctx context.Context, j job.Job, r job.Range, p job.Progress) error {
	worker, err := w.of(j)
	if err != nil {
		return err
	}
	return worker.Work(ctx, j, r, p)
}

// Live leaves out projections that have no live generation yet.
func (s sweeps) Live(context.Context) ([]reconcile.Projection, error) {
	var live []reconcile.Projection
	for name, e := range s.entries() {
		if e.RetiredAt == nil && e.Live != nil {
			live = append(live, reconcile.Projection{Name: name, Generation: max(e.Live.Generation, catalog.First)})
		}
	}
	return live, nil
}

func (s sweeps) Start(ctx context.Context, id string, p reconcile.Projection) error {
	params := any(history.SweepParams{GraceMillis: s.grace.Milliseconds()})
	if s.content {
		params = history.VerifyParams{Repair: true, GraceMillis: s.grace.Milliseconds()}
	}
	raw, err := bson.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode the parameters of job %s: %w", id, err)
	}
	// A sweep of a replaced generation would never end.
	if _, err := s.jobs.Supersede(ctx, p.Name, []job.Kind{job.Reconcile}, id, "another sweep of the projection has begun"); err != nil {
		return err
	}
	_, err = s.jobs.Create(ctx, job.Job{
		ID: id, Kind: job.Reconcile, Projection: p.Name, Generation: p.Generation, Params: raw,
		Who: s.who, Why: "PENSTOCK_RECONCILE",
	})
	return err
}

// Progress fails if the job is paused. The error becomes a condition of health, because the
// projection has no other sweep until the job is resumed.
func (s sweeps) Progress(ctx context.Context, id string) (reconcile.Progress, error) {
	j, err := s.jobs.Get(ctx, id)
	if errors.Is(err, job.ErrNotFound) {
		return reconcile.Progress{Unknown: true}, nil
	}
	if err != nil {
		return reconcile.Progress{}, fmt.Errorf("read job %s: %w", id, err)
	}
	if j.State == job.Paused {
		return reconcile.Progress{}, fmt.Errorf("%w %s; \"projector jobs resume %s\" continues it", job.ErrPaused, j.Reason, id)
	}
	content, err := comparesContent(j)
	if err != nil {
		return reconcile.Progress{}, err
	}
	folded := history.CountBehind
	if content {
		folded = history.CountRepaired
	}
	return reconcile.Progress{Ended: j.State.Ended(), Failed: j.State != job.Done, Reason: j.Reason, Folded: j.Counts[folded]}, nil
}
