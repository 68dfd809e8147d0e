package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// longestRetries is the longest backoff after failed work, in retry periods.
const longestRetries = 30

// Options are what an elector reports to. The zero value reports to no one: every field is optional.
type Options struct {
	Logger zerolog.Logger
	// Registerer receives penstock_publisher_leader and
	// penstock_publisher_terms_total{reason}.
	Registerer prometheus.Registerer
	// Heartbeat, if not nil, is called after every answered or failed request to the lock
	// store: the election loop makes progress. Requests are at most 2.2 RetryPeriod +
	// RequestTimeout apart. The exception is the backoff after failed work (at most 30
	// RetryPeriod).
	Heartbeat func()
	// NewLeader, if not nil, is called with the identity of each process that begins to
	// lead, including this one, as soon as this process sees it.
	NewLeader func(identity string)
	// TermEnded, if not nil, is called when a term of this process has ended.
	TermEnded func(TermEnd)
}

// TermEnd is a term that has ended.
type TermEnd struct {
	Began  time.Time
	Lasted time.Duration
	// Reason is the value of the label of penstock_publisher_terms_total.
	Reason string
	// Err is the work's error; nil if the work ended because it was asked to.
	Err error
}

// Elector runs work in terms of leadership.
type Elector struct {
	lock    resourcelock.Interface
	config  Config
	logger  zerolog.Logger
	metrics metrics
	options Options
	// contact outlives the terms.
	contact contact
}

// New makes an elector on a lock of its own.
func New(lock resourcelock.Interface, config Config, options Options) *Elector {
	logger := options.Logger.With().Str("component", "leader").Str("identity", lock.Identity()).Logger()
	return &Elector{
		lock:    lock,
		config:  config,
		logger:  logger,
		metrics: newMetrics(options.Registerer),
		options: options,
		contact: contact{logger: logger.With().Str("lock", lock.Describe()).Logger(), heartbeat: options.Heartbeat},
	}
}

// CheckLock returns why this process cannot take part in the election at the moment; nil if
// it can, whoever leads. It is for a readiness check: a rollout stops at the first process
// that does not reach the lock store, and a standby that could not take over is visible. An
// outage shorter than Config.LeaseDuration is no error, because no other process can lead
// meanwhile. CheckLock makes no request, and is safe for concurrent use.
func (e *Elector) CheckLock(context.Context) error {
	return e.contact.check(e.config.LeaseDuration)
}

// Run takes part in the election and runs work in one term after the other, never in two at
// once, until ctx ends. When it returns, the work has ended, and the lease is released or,
// if the lock store cannot be reached, left to expire. It returns nil, [ErrWorkerStuck] or
// [ErrElectorStuck]. Run can be called once.
func (e *Elector) Run(ctx context.Context, work Work) error {
	// The shortest wait is longer than the longest pause between two attempts of a candidate
	// (2.2 PollPeriod), so that another process takes the lock first.
	retry := poll.Backoff{First: 6 * e.config.RetryPeriod, Max: longestRetries * e.config.RetryPeriod}
	e.contact.stopping = ctx.Err
	for ctx.Err() == nil {
		term, err := e.runTerm(ctx, work)
		if err != nil {
			return err
		}
		if term.reason != reasonWorkFailed {
			continue
		}
		if term.lasted > retry.Max {
			retry.Reset()
		}
		wait := retry.Next()
		e.logger.Warn().Stringer("backoff", wait.Round(time.Millisecond)).Msg("work failed; another process may lead during the backoff")
		_ = poll.Wait(ctx, wait) // the loop ends with ctx
	}
	return nil
}

// runTerm waits for the lock, leads, and releases the lock. The outcome is zero if no term
// began before ctx ended.
func (e *Elector) runTerm(ctx context.Context, work Work) (outcome, error) {
	lock := newGuard(e.lock, e.config, &e.contact)
	taken := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		Name:          lock.Describe(),
		LeaseDuration: e.config.LeaseDuration,
		RenewDeadline: e.config.RenewDeadline,
		// The guard passes one renewal per RetryPeriod on.
		RetryPeriod:     e.config.PollPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			// The context that it gets ends only after the release: see package doc.
			OnStartedLeading: func(context.Context) { close(taken) },
			OnStoppedLeading: func() {},
			OnNewLeader:      e.observe,
		},
	})
	if err != nil {
		return outcome{}, fmt.Errorf("make an elector: %w", err)
	}

	// The elector outlives ctx: it renews while the work drains.
	electorCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(klog.NewContext(electorCtx, logr.Discard()))
	}()

	var term outcome
	select {
	case <-ctx.Done():
	case <-ended:
	case <-taken:
		if ctx.Err() == nil && lock.begin() {
			term, err = e.lead(ctx, work, lock, ended)
			if err != nil {
				return term, err
			}
		}
	}

	// Release is a read and a write, and RenewDeadline bounds it.
	cancel()
	limit := time.NewTimer(e.config.RenewDeadline + e.config.RetryPeriod)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
		return term, ErrElectorStuck
	}
	return term, nil
}

func (e *Elector) observe(leader string) {
	if e.options.NewLeader != nil {
		e.options.NewLeader(leader)
	}
	if leader != "" && leader != e.lock.Identity() {
		e.logger.Info().Str("leader", leader).Msg("another process leads; standing by")
	}
}
