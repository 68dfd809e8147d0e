package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Why a term ended, as [context.Cause] of its contexts.
var (
	// ErrStopping says that the process was asked to stop. The lease is still renewed: work
	// in flight may finish, under [Term.Held].
	ErrStopping = errors.New("publisher is stopping")
	// ErrLeaseLost says that another process holds the lease, or that the elector gave up
	// renewing it.
	ErrLeaseLost = errors.New("lease was lost")
	// ErrTrustExpired says that no renewal has succeeded for so long that another
	// process may soon hold the lease.
	ErrTrustExpired = errors.New("lease was not renewed in time")
	// errTermOver says that the work itself returned.
	errTermOver = errors.New("term is over")
)

// The errors of Run. Both mean that the caller must exit the process, because a goroutine
// of a past term still runs.
var (
	// ErrWorkerStuck says that the work did not end in time.
	ErrWorkerStuck = errors.New("work did not stop in time, exit the process")
	// ErrElectorStuck says that a request to the lock store outlived its context.
	ErrElectorStuck = errors.New("elector did not stop in time, exit the process")
)

// Work is what a leader does in one term. It blocks for the whole term.
//
// When ctx ends, Work begins nothing new. If [Term.Held] has not ended, it finishes what is
// in flight, saves, and returns, within Config.StopTimeout. If Held has ended too, it stops
// within [Config.AbortTimeout], because another process is about to begin. When Work
// returns, everything that it started has ended.
//
// If Work returns an error, or returns before ctx has ended, the lease is released so that
// another process can take over. This process is a candidate again after a backoff.
type Work func(ctx context.Context, term *Term) error

// Term is one continuous time of leadership.
type Term struct {
	identity string
	started  time.Time
	held     context.Context //nolint:containedctx // a term is a span of time: this is its end
	// limit is when the work must have ended; nil until it is asked to stop.
	limit atomic.Pointer[time.Time]
}

// Identity is the lock's holder identity: `<pod>_<uuid>`.
func (t *Term) Identity() string { return t.identity }

// Held ends when the lease can no longer be trusted, with the cause [ErrLeaseLost] or
// [ErrTrustExpired]. A stop does not end it, so draining uses it. The work's own context is
// derived from it.
func (t *Term) Held() context.Context { return t.held }

// Remaining returns how much time the work has left to end; after that, Run returns
// [ErrWorkerStuck]. It can be negative. Before the work is asked to stop, it is longer than
// any term. A stop sets it to Config.StopTimeout. The loss of the lease reduces it to
// [Config.AbortTimeout], before Held ends.
func (t *Term) Remaining() time.Duration {
	limit := t.limit.Load()
	if limit == nil {
		return forever
	}
	return time.Until(*limit)
}
