package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/lease"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// Jobs is the part of a [Store] that a runner needs.
type Jobs interface {
	Active(ctx context.Context, q Query) ([]Job, error)
	Claim(ctx context.Context, j Job, holder string, lease time.Duration) (Claim, bool, error)
	Keep(ctx context.Context, c Claim, lease time.Duration) error
	Save(ctx context.Context, c Claim, position bson.Raw, counts map[string]int64, lease time.Duration) error
	// The others end a claim.
	Plan(ctx context.Context, c Claim, parts []bson.Raw, total int64) error
	Complete(ctx context.Context, c Claim, ranges int, total int64, counts map[string]int64) error
	Finish(ctx context.Context, c Claim, counts map[string]int64) error
	Return(ctx context.Context, c Claim, delay time.Duration, failure error) error
	Fail(ctx context.Context, c Claim, reason error) error
}

var _ Jobs = (*Store)(nil)

const (
	// rangeLease is how long a range is kept without an answer of the store. The lease is extended
	// after each third of that time.
	rangeLease = 30 * time.Second
	// settleTimeout bounds the last request about a claim when the process stops.
	settleTimeout = 2 * time.Second
	// firstRetry and lastRetry bound the waits after errors of a worker.
	firstRetry, lastRetry = time.Second, time.Minute
	// maxIdle bounds the rest after a search that found nothing. The rest is a quarter of Poll for each
	// active job, because a search makes a request for each.
	maxIdle = 10 * time.Second
)

// RunnerOptions make a [Runner].
type RunnerOptions struct {
	Jobs Jobs
	// Workers are the workers of this process. It ignores jobs of other kinds.
	Workers map[Kind]Worker
	// Holder is the unique name of this process.
	Holder string
	// Parallel bounds the ranges that are worked on at the same time; default 2.
	Parallel int
	// Small is the estimated amount of work up to which the process that plans a job does it at
	// once, without storing its ranges; default none.
	Small int64
	// Only restricts the runner to one job; empty means all.
	Only string
	// Poll is the average time between two searches for work while there is none and at most four
	// jobs are active; default 1 s.
	Poll time.Duration
	// Here reports whether this process can work on a job; nil means always. The runner claims
	// nothing of other jobs.
	Here   func(context.Context, Job) bool
	Logger zerolog.Logger
}

// Runner works on ranges of jobs. Make it with [NewRunner].
type Runner struct {
	options RunnerOptions
	kinds   []Kind
	// free triggers another search for work, because a range has ended.
	free chan struct{}
	// waiting are the active jobs that had no turn since they were read. Only Run uses it.
	waiting []Job
	// asked counts the jobs for which the last search has asked.
	asked int
	// unread and unclaimed limit the lines about retries.
	unread, unclaimed obs.Repeats
}

// NewRunner makes a runner.
func NewRunner(o RunnerOptions) *Runner {
	o.Parallel, o.Poll = cmp.Or(o.Parallel, 2), cmp.Or(o.Poll, time.Second)
	return &Runner{options: o, kinds: slices.Sorted(maps.Keys(o.Workers)), free: make(chan struct{}, 1)}
}

// Run works until ctx ends. Then it returns its unfinished ranges to the store, and
// returns nil after all its goroutines have ended.
func (r *Runner) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	slots := make(chan struct{}, r.options.Parallel)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		claim, requested, ok := r.next(ctx)
		if ok {
			working.Go(func() {
				defer func() {
					<-slots
					r.look()
				}()
				r.work(ctx, claim, requested)
			})
			continue
		}
		<-slots
		// The wait is random so that many processes search at different times.
		rest := max(r.options.Poll, min(time.Duration(r.asked)*r.options.Poll/4, maxIdle))
		timer := time.NewTimer(rest/2 + rand.N(rest))
		select {
		case <-timer.C:
		case <-r.free:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// look makes Run search for work at once.
func (r *Runner) look() {
	select {
	case r.free <- struct{}{}:
	default:
	}
}

// next claims a range of the first of the waiting jobs that has an open one, and returns when it
// requested the claim. When no job waits any more, it reads the active jobs once: so every job
// has its turn before a job has the next one. An error of one job does not prevent claims of the
// others.
func (r *Runner) next(ctx context.Context) (Claim, time.Time, bool) {
	r.asked = 0
	for read := false; ctx.Err() == nil; {
		if len(r.waiting) == 0 {
			if read {
				break
			}
			read = true
			jobs, err := r.options.Jobs.Active(ctx, Query{Kinds: r.kinds, Only: r.options.Only})
			if err != nil && ctx.Err() == nil {
				r.unread.Warn(&r.options.Logger).Err(err).Msg("active jobs not read; retrying")
			}
			if r.waiting = jobs; len(jobs) == 0 {
				break
			}
		}
		j := r.waiting[0]
		r.waiting = r.waiting[1:]
		if here := r.options.Here; here != nil && !here(ctx, j) {
			continue
		}
		r.asked++
		requested := time.Now()
		claim, ok, err := r.options.Jobs.Claim(ctx, j, r.options.Holder, rangeLease)
		if err != nil && ctx.Err() == nil {
			r.unclaimed.Warn(&r.options.Logger).Err(err).Str("job", j.ID).Msg("no range of the job claimed; retrying")
		}
		if ok {
			return claim, requested, true
		}
	}
	return Claim{}, time.Time{}, false
}

// work works on a claim, which was requested at that time, keeps its lease meanwhile, and
// settles it.
func (r *Runner) work(ctx context.Context, c Claim, requested time.Time) {
	log := r.options.Logger.With().Str("job", c.Job.ID).Str("kind", string(c.Job.Kind)).Str("projection", c.Job.Projection).
		Bool("planning", c.Planning).Int("range", c.Range.Index).Int64("epoch", c.Epoch).Logger()
	log.Debug().Msg("range claimed")
	worker, jobs := r.options.Workers[c.Job.Kind], r.options.Jobs
	p := &progress{jobs: jobs, claim: c, saved: c.Range.Counts}
	var parts []bson.Raw
	var total int64
	var err error
	small := false
	if cause := lease.Hold(ctx, lease.Options{
		Taken: requested, Lasts: rangeLease,
		Renew:   func(ctx context.Context) error { return jobs.Keep(ctx, c, rangeLease) },
		Final:   stops,
		Expired: fmt.Errorf("no request about the range was answered for %v: %w", rangeLease, ErrLost),
		Retried: func(err error) { log.Debug().Err(err).Msg("lease of a range not extended; retrying") },
	}, func(ctx context.Context, held *lease.Held) {
		p.held = held
		if c.Planning {
			parts, total, err = worker.Plan(ctx, c.Job)
			if small = err == nil && total > 0 && total <= r.options.Small; small {
				err = p.workAll(ctx, worker, parts)
			}
		} else {
			err = worker.Work(ctx, c.Job, c.Range, p)
		}
	}); cause != nil {
		err = cause
	}

	settling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if ctx.Err() != nil {
		defer time.AfterFunc(settleTimeout, cancel).Stop()
	}
	switch {
	case err == nil && small:
		err = jobs.Complete(settling, c, len(parts), total, p.all)
	case err == nil && c.Planning:
		log.Info().Int("ranges", len(parts)).Int64("total", total).Msg("job planned")
		err = jobs.Plan(settling, c, parts, total)
	case err == nil:
		err = jobs.Finish(settling, c, p.saved)
	case errors.Is(err, ErrLost):
		log.Warn().Err(err).Msg("lease of a range lost; another process continues")
		return
	case errors.Is(err, ErrCancelled):
		log.Debug().Err(err).Msg("work on a range stopped")
		err = jobs.Return(settling, c, 0, nil)
	case ctx.Err() != nil:
		err = jobs.Return(settling, c, 0, nil)
	case errors.Is(err, ErrNotHere):
		log.Debug().Err(err).Msg("range left to other processes")
		// This process may claim it again before it knows that another definition is live.
		err = jobs.Return(settling, c, firstRetry, nil)
	case isPermanent(err):
		err = jobs.Fail(settling, c, err)
	default:
		delay := poll.After(firstRetry, lastRetry, max(c.Range.Attempts, c.Job.Attempts)+1)
		log.Warn().Err(err).Dur("retryAfter", delay).Msg("work on a range failed; retrying")
		err = jobs.Return(settling, c, delay, err)
	}
	if err != nil && !stops(err) {
		log.Warn().Err(err).Msg("range not settled; its lease will expire")
	}
}

// progress saves the progress of the work on a claim.
type progress struct {
	jobs  Jobs
	claim Claim
	held  *lease.Held
	// mu guards saved, the counts of the last save.
	mu    sync.Mutex
	saved map[string]int64
	// all are the counts of the ranges of a small job.
	all map[string]int64
}

var _ Progress = (*progress)(nil)

// workAll works on all ranges of a small job under the claim of its planning. A process that
// dies leaves nothing of it, so its successor plans the job again.
func (p *progress) workAll(ctx context.Context, worker Worker, parts []bson.Raw) error {
	p.all = map[string]int64{}
	for i, part := range parts {
		p.saved = nil
		if err := worker.Work(ctx, p.claim.Job, Range{Job: p.claim.Job.ID, Index: i, Part: part}, p); err != nil {
			return err
		}
		for name, n := range p.saved {
			p.all[name] += n
		}
	}
	return nil
}

// Save stores the progress of the work, and renews the lease. A small job only renews it.
func (p *progress) Save(ctx context.Context, position bson.Raw, counts map[string]int64) error {
	err := p.held.Renewing(func() error {
		if p.claim.Planning {
			return p.jobs.Keep(ctx, p.claim, rangeLease)
		}
		return p.jobs.Save(ctx, p.claim, position, counts, rangeLease)
	})
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.saved = maps.Clone(counts)
	}
	return err
}
