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

// keeper renews a session's lock at half-life. If a renewal does not succeed, it ends the
// session's work before the lock ends. The deadline is computed from the start of the last
// successful renewal and the duration of a lock, in this process's monotonic clock.
type keeper struct {
	renew func(ctx context.Context) error
	// lasts is the duration of a lock, deadline the end of the present one.
	lasts    time.Duration
	deadline time.Time
	log      zerolog.Logger
}

// newKeeper makes the keeper of a lock that was granted just before now. lockedUntil is by
// the broker's clock. If the clocks differ so much that the value cannot be right, a short
// duration is assumed.
func newKeeper(lockedUntil, now time.Time, renew func(context.Context) error, log zerolog.Logger) *keeper {
	// Round strips the monotonic reading, so the wall clocks are compared.
	lasts := lockedUntil.Sub(now.Round(0))
	switch {
	case lasts < time.Second:
		lasts = defaultLock
	case lasts > maxLock:
		lasts = maxLock
	}
	return &keeper{renew: renew, lasts: lasts, deadline: now.Add(lasts), log: log}
}

// margin is the time before the deadline in which no write may begin. It is longer than a
// write usually takes.
func (k *keeper) margin() time.Duration { return min(k.lasts/6, 5*time.Second) }

// run renews the lock until ctx ends. If the lock is lost, it calls lost with a cause that
// wraps [ErrLockLost], before the deadline, even if a renewal hangs.
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
			lost(fmt.Errorf("%w: renew it: %w", ErrLockLost, sbus.Readable(err)))
			return
		default:
		}
		k.log.Warn().Err(sbus.Readable(err)).Dur("left", time.Until(k.end())).Msg("session lock not renewed; retrying")
		timer.Reset(max(interval/10, 100*time.Millisecond))
	}
}

// end is the time after which no write may begin.
func (k *keeper) end() time.Time { return k.deadline.Add(-k.margin()) }

// attempt renews once. Its timeout leaves time for another attempt.
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
