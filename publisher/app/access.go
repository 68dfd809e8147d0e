package app

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// access records, over all terms of a process, for how long MongoDB has refused the process
// because of wrong credentials or missing rights. At the start such a refusal means a wrong
// configuration, and the process exits. After MongoDB has served the process, the same
// errors also occur while somebody changes a password or a role, and the proxy of MongoDB
// Atlas returns them too. Those refusals are transient: the next term retries, and the
// process exits only if they last.
//
// The zero value ends the process at the first refusal. It is safe for concurrent use.
type access struct {
	// after is how long MongoDB may refuse a process that it has served before.
	after  time.Duration
	logger zerolog.Logger

	served, refusing atomic.Bool

	mu     sync.Mutex
	since  time.Time
	reason error
}

// works records that MongoDB has served the process.
func (a *access) works() {
	a.served.Store(true)
	if !a.refusing.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusing.Store(false)
	a.since, a.reason = time.Time{}, nil
	a.logger.Info().Msg("MongoDB accepts this publisher again")
}

// final reports whether err, which is fatal for the term, also ends the process now.
func (a *access) final(err error) bool {
	if !a.served.Load() || !mongox.AccessRefused(err) {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.refusing.Swap(true) {
		a.since = time.Now()
		a.logger.Error().Err(err).Stringer("endsAfter", a.after).Msg("MongoDB refuses this publisher; retrying")
	}
	a.reason = err
	return time.Since(a.since) >= a.after
}

// check is the readiness check.
func (a *access) check(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reason == nil {
		return nil
	}
	return fmt.Errorf("MongoDB has refused this publisher for %s: %w", time.Since(a.since).Round(time.Second), a.reason)
}
