package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Why a term ended, as [context.Cause] of its contexts.
var (
	// ErrStopping says that the process was asked to stop. The lease is still held
	// and renewed: what is in flight may finish, under [Term.Held].
	ErrStopping = errors.New("publisher is stopping")
	// ErrLeaseLost says that another process holds the lease, or that the elector
	// gave up renewing it.
	ErrLeaseLost = errors.New("lease was lost")
	// ErrTrustExpired says that no renewal has succeeded for so long that another
	// process may soon hold the lease.
	ErrTrustExpired = errors.New("lease was not renewed in time")
	// ErrTermOver says that the work itself returned.
	ErrTermOver = errors.New("term is over")
)

// What Run can end with beside nil. Both mean that the caller must exit the
// process at once: something of a past term still runs.
var (
	// ErrWorkerStuck says that the work did not end in time.
	ErrWorkerStuck = errors.New("work did not stop in time, exit the process")
	// ErrElectorStuck says that a request to the lock store outlived its context.
	ErrElectorStuck = errors.New("elector did not stop in time, exit the process")
)

// Work is what a leader does for one term. It blocks for the whole term.
//
// When ctx ends, it takes on nothing new. Where [Term.Held] still stands, it
// finishes what is in flight, saves, and returns, within Config.StopTimeout. Where
// that has ended too, it stops at once, within [Config.AbortTimeout]: another process
// is about to begin. Everything that it started has ended
// when it returns.
//
// An error, or a return before ctx ended, gives the lease up, so that another
// process may take over, and this one is a candidate again after a backoff.
type Work func(ctx context.Context, term *Term) error

// Term is one continuous time of leadership.
type Term struct {
	identity string
	started  time.Time
	held     context.Context //nolint:containedctx // a term is a span of time: this is its end
	// limit is when the work must have ended; nil until it is told to end.
	limit atomic.Pointer[time.Time]
}

// Identity is the lock's holder identity: `<pod>_<uuid>`.
func (t *Term) Identity() string { return t.identity }

// Held ends when the lease can no longer be trusted, with the cause
// [ErrLeaseLost] or [ErrTrustExpired], and never because of a stop: draining
// happens under it. The work's own context is derived from it.
func (t *Term) Held() context.Context { return t.held }

// Remaining returns how much time the work has left to end, after which Run returns
// [ErrWorkerStuck]; it can be negative. Until the work is told to end, that is longer
// than any term. A stop starts it at Config.StopTimeout, and the loss of the lease
// shortens it to [Config.AbortTimeout], before Held ends.
func (t *Term) Remaining() time.Duration {
	limit := t.limit.Load()
	if limit == nil {
		return forever
	}
	return time.Until(*limit)
}
