package history

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Claims is the list of parked aggregates. An error of its methods ends the work on a
// marker, because the claim is lost, or the list does not answer and the claim will
// expire.
type Claims interface {
	// Claim claims the marker that has been due for longest, for the duration of lease;
	// false if none is due.
	Claim(ctx context.Context, lease time.Duration) (model.Claimed, bool, error)
	// Extend extends the claim by another lease, and returns the last event that was
	// acknowledged for the aggregate.
	Extend(ctx context.Context, m model.Claimed, lease time.Duration) (head int64, err error)
	// Finish deletes the marker and returns -1. If the marker's head is above watermark,
	// Finish extends the claim and returns the head instead.
	Finish(ctx context.Context, m model.Claimed, watermark int64, lease time.Duration) (head int64, err error)
	// Postpone returns the marker, to be claimed after a wait.
	Postpone(ctx context.Context, m model.Claimed, f model.Failure) error
	// Return returns the marker unchanged, to be claimed after the delay.
	Return(ctx context.Context, m model.Claimed, delay time.Duration) error
}

// ResumerOptions configure a [Resumer].
type ResumerOptions struct {
	Claims Claims
	// Engine replays the events of the aggregates.
	Engine engine.Pager
	// Soon is signalled when this process has parked an aggregate; nil for never.
	Soon <-chan struct{}
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
	Logger     zerolog.Logger
}

// Resumer resumes parked aggregates. Make it with [NewResumer].
type Resumer struct {
	options ResumerOptions
	results *prometheus.CounterVec
	// unclaimed limits the lines about retries. Only Run uses it.
	unclaimed obs.Repeats
}

// The results of an attempt, as values of a metric's label.
const (
	resultResumed = "resumed"
	resultStuck   = "stuck"
	resultParked  = "parked"
	resultLost    = "lost"
)

// finalAttempts is the number of attempts after which a history that does not begin at event
// 1 is not waited for any more. It takes about a minute.
const finalAttempts = 8

const (
	// resumeWorkers is the number of aggregates that a process resumes at the same time.
	resumeWorkers = 4
	// resumePoll is the average time between two searches for a due marker while none is due.
	resumePoll = 2 * time.Second
	// firstPoll is the time between two searches after an aggregate was found or parked: its
	// next attempt can be due that soon.
	firstPoll = 200 * time.Millisecond
	// claimLease is how long a claim lasts without an extension. It must be longer than
	// replaying a page of events takes.
	claimLease = time.Minute
)

// returnTimeout bounds the return of a claim when the process stops.
const returnTimeout = time.Second

// NewResumer makes a resumer.
func NewResumer(o ResumerOptions) *Resumer {
	return &Resumer{options: o, results: obs.CounterVec(o.Registerer, "penstock_projector_resumptions_total",
		"Attempts to resume a parked aggregate by result: resumed (it has caught up), stuck (it is retried later), parked (its next event can never be applied), lost (another process has the claim, or the parked list did not answer).",
		"result", resultResumed, resultStuck, resultParked, resultLost)}
}

// Run resumes aggregates until ctx ends. It returns nil after its workers have ended.
func (r *Resumer) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	free := make(chan struct{}, resumeWorkers)
	poll := resumePoll
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		marker, ok, err := r.options.Claims.Claim(ctx, claimLease)
		if err == nil && ok {
			workers.Go(func() {
				defer func() { <-free }()
				r.results.WithLabelValues(r.resume(ctx, marker)).Inc()
			})
			poll = firstPoll
			continue
		}
		<-free
		if err != nil && ctx.Err() == nil {
			r.unclaimed.Warn(&r.options.Logger).Err(err).Msg("parked aggregate not claimed; retrying")
		}
		poll = r.pause(ctx, poll)
	}
}

// pause waits for about poll, and returns how long to wait the next time. The wait is random
// so that many processes search at different times.
func (r *Resumer) pause(ctx context.Context, poll time.Duration) time.Duration {
	select {
	case <-time.After(poll/2 + rand.N(poll)):
		return min(2*poll, resumePoll)
	case <-r.options.Soon:
	case <-ctx.Done():
		return poll
	}
	poll = firstPoll
	select {
	case <-time.After(poll):
	case <-ctx.Done():
	}
	return poll
}

// resume works on a claimed marker and returns the result.
func (r *Resumer) resume(ctx context.Context, m model.Claimed) string {
	log := r.options.Logger.With().Str("projection", m.Projection).Str("aggregateId", m.AggregateID).Logger()
	result, err := r.replay(ctx, m, &log)
	switch {
	case ctx.Err() != nil:
		returning, cancel := mongox.Timeout(context.WithoutCancel(ctx), returnTimeout)
		defer cancel()
		if err := r.options.Claims.Return(returning, m, 0); err != nil {
			log.Debug().Err(err).Msg("claim of a parked aggregate not returned; it will expire")
		}
	case err != nil:
		log.Warn().Err(err).Msg("stopped resuming a parked aggregate")
	case result == resultResumed:
		log.Info().Msg("parked aggregate resumed; its read model has caught up")
	}
	return result
}

// replay replays pages of events until the aggregate has caught up with its head or
// cannot continue.
func (r *Resumer) replay(ctx context.Context, m model.Claimed, log *zerolog.Logger) (result string, err error) {
	head, attempts := m.Head, m.Attempts+1
	resumed, err := engine.CatchUp(ctx, r.options.Engine, engine.Suspended{
		Projection: m.Projection, Generation: m.Generation, AggregateID: m.AggregateID, RawAggregateID: m.RawAggregateID,
		Head: head, Final: m.Attempts >= finalAttempts,
	}, func(watermark int64) (_ int64, err error) {
		attempts = 0
		if watermark < head {
			head, err = r.options.Claims.Extend(ctx, m, claimLease)
		} else {
			head, err = r.options.Claims.Finish(ctx, m, watermark, claimLease)
		}
		return head, err
	})
	cause := resumed.Cause
	switch {
	case err != nil:
		return resultLost, err
	case cause == nil:
		return resultResumed, nil
	case !cause.Reason.Resumes():
		return resultParked, nil
	case resumed.Interrupted:
		// The marker keeps why the aggregate is parked.
		if err := r.options.Claims.Return(ctx, m, resumePoll); err != nil {
			return resultLost, err
		}
		return resultStuck, nil
	}
	f := model.Failure{Reason: string(cause.Reason), Error: cause.Err.Error(), EventID: cause.EventID, Attempts: attempts, Seldom: cause.Reason.Seldom()}
	if err := r.options.Claims.Postpone(ctx, m, f); err != nil {
		return resultLost, err
	}
	log.Debug().Str("reason", f.Reason).Int64("eventId", f.EventID).Str("error", f.Error).Msg("parked aggregate not resumed yet")
	return resultStuck, nil
}
