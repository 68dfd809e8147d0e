package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// ErrLockLost says that the session's lock is lost or about to end: no write may
// begin any more.
var ErrLockLost = errors.New("session lock lost")

// keeper renews a session's lock at half-life, and ends the session's work before
// a lock that cannot be renewed does. The deadline is computed from the start of
// the last successful renewal and the time that a lock lasts, all in this
// process's monotonic clock.
type keeper struct {
	renew func(ctx context.Context) error
	// lasts is how long a lock lasts; deadline when the present one ends.
	lasts    time.Duration
	deadline time.Time
	log      zerolog.Logger
}

// newKeeper makes the keeper of a lock that was granted just before now. The
// broker's clock tells lockedUntil; where the two clocks disagree so much that it
// makes no sense, the lock is taken for a short one.
func newKeeper(lockedUntil, now time.Time, renew func(context.Context) error, log zerolog.Logger) *keeper {
	// Round strips the monotonic reading: the two are compared by the wall.
	lasts := lockedUntil.Sub(now.Round(0))
	switch {
	case lasts < time.Second:
		lasts = defaultLock
	case lasts > maxLock:
		lasts = maxLock
	}
	return &keeper{renew: renew, lasts: lasts, deadline: now.Add(lasts), log: log}
}

// margin is the time before the deadline in which no write may begin: longer than
// a write usually takes.
func (k *keeper) margin() time.Duration { return min(k.lasts/6, 5*time.Second) }

// run renews until ctx ends. Where the lock is lost, it calls lost with a cause
// that is [ErrLockLost], at the latest before the deadline, whatever a renewal that
// hangs is doing.
func (k *keeper) run(ctx context.Context, lost context.CancelCauseFunc) {
	watchdog := time.AfterFunc(time.Until(k.end()), func() {
		lost(fmt.Errorf("%w: not renewed in time", ErrLockLost))
	})
	defer watchdog.Stop()
	interval := min(k.lasts/2, maxRenewInterval)
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := k.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			watchdog.Reset(time.Until(k.end()))
			timer.Reset(interval)
			continue
		}
		switch sbus.Classify(err) {
		case sbus.ClassLockLost, sbus.ClassConnectionLost, sbus.ClassFatal, sbus.ClassStopped:
			lost(fmt.Errorf("%w: renew it: %w", ErrLockLost, err))
			return
		default:
		}
		k.log.Warn().Err(err).Dur("left", time.Until(k.end())).Msg("session lock not renewed; retrying")
		timer.Reset(max(interval/10, 100*time.Millisecond))
	}
}

// end is when no write may begin any more.
func (k *keeper) end() time.Time { return k.deadline.Add(-k.margin()) }

// attempt renews once, and gives up in time to try again.
func (k *keeper) attempt(ctx context.Context) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, max(k.end().Sub(start)/3, 100*time.Millisecond))
	defer cancel()
	if err := k.renew(ctx); err != nil {
		return err
	}
	k.deadline = start.Add(k.lasts)
	return nil
}
