package mongox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// Access measures for how long MongoDB has refused a process because of wrong credentials or
// missing rights. At the start such a refusal means a wrong configuration, and the process
// exits. After MongoDB has served the process, the same errors also occur while somebody
// changes a password or a role, and the proxy of MongoDB Atlas returns them too. Those
// refusals are transient: the process retries, and exits only if they last. A restarted
// container has the Secret as it is then.
//
// The zero value ends the process at the first refusal. It is safe for concurrent use.
type Access struct {
	// After is how long MongoDB may refuse a process that it has served before.
	After time.Duration
	// Service is the kind of the process, for errors and the log, such as "publisher".
	Service string
	// Logger is silent by default.
	Logger zerolog.Logger

	served, refusing atomic.Bool

	mu sync.Mutex
	// since is when the refusals began, and last when the last one was.
	since, last time.Time
	reason      error
}

// refusalLasts is how long a refusal counts after the last attempt. A process makes no attempt while
// another one leads, so nothing else ends its refusal.
const refusalLasts = 15 * time.Minute

// Works records that MongoDB has served the process.
func (a *Access) Works() {
	a.served.Store(true)
	if !a.refusing.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusing.Store(false)
	a.since, a.reason = time.Time{}, nil
	a.Logger.Info().Msgf("MongoDB accepts this %s again", a.Service)
}

// Served records that MongoDB has served the process before, by another request than those
// that this Access measures.
func (a *Access) Served() { a.served.Store(true) }

// Final records err, and reports whether the process must end now: because err is no refusal
// (see [AccessRefused]), because MongoDB has never served the process, or because the
// refusals have lasted for After.
func (a *Access) Final(err error) bool {
	if !a.served.Load() || !AccessRefused(err) {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.refusing.Swap(true) || time.Since(a.last) > refusalLasts {
		a.since = time.Now()
		a.Logger.Error().Err(err).Stringer("endsAfter", a.After).Msgf("MongoDB refuses this %s; retrying", a.Service)
	}
	a.reason, a.last = err, time.Now()
	return time.Since(a.since) >= a.After
}

// Check is a readiness check. Its error has the last refusal.
func (a *Access) Check(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reason == nil || time.Since(a.last) > refusalLasts {
		return nil
	}
	return fmt.Errorf("MongoDB has refused this %s for %s: %w", a.Service, poll.Duration(time.Since(a.since)), a.reason)
}
