package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errNotOurs keeps an elector from releasing what another process holds.
var errNotOurs = errors.New("lock is not held by this process")

// errVanished keeps an elector from making a lock anew whose last holder may not know
// yet that it is gone.
var errVanished = errors.New("lock has vanished, and another process may still lead")

// guard stands between one term's elector and the lock. It knows how long the last
// renewal may be trusted, notices when the lock is another's, and lets a release
// through only when no work runs and the lock is ours.
//
// A release is the write of a record without a holder: nothing else writes one.
type guard struct {
	resourcelock.Interface

	config Config
	// seen is what this process saw of other leaders, in this term or before.
	seen    *sighting
	contact *contact
	// lost is closed when the lock is another's, or the elector wants to release it.
	lost chan struct{}

	mu sync.Mutex
	// holder is the one in the record that was read or written last.
	holder string
	// renewed is when the request of the last successful renewal was begun; zero
	// before the first.
	renewed time.Time
	// working is closed when the work has ended; nil before it began.
	working chan struct{}
	isLost  bool
}

func newGuard(lock resourcelock.Interface, config Config, seen *sighting, contact *contact) *guard {
	return &guard{
		Interface: lock,
		config:    config,
		seen:      seen,
		contact:   contact,
		lost:      make(chan struct{}),
	}
}

// begin says that work is about to begin. It reports false if the lock has been
// lost since the elector took it: no work may begin then.
func (g *guard) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isLost || g.renewed.IsZero() || time.Since(g.renewed) >= g.config.trust() {
		return false
	}
	g.working = make(chan struct{})
	return true
}

// end says that the work has ended.
func (g *guard) end() { close(g.working) }

// deadline is when the last successful renewal can no longer be trusted.
func (g *guard) deadline() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.renewed.Add(g.config.trust())
}

// Get reads the record, and ends the term where it names another holder.
func (g *guard) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, g.config.RequestTimeout)
	defer cancel()
	record, raw, err := g.Interface.Get(ctx)
	g.contact.asked(err)
	if apierrors.IsNotFound(err) && g.seen.recent() {
		// To client-go, a lock that is missing is free.
		return nil, nil, errVanished
	}
	if err != nil {
		return nil, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen.note(record, g.Identity())
	g.holder = record.HolderIdentity
	if !g.renewed.IsZero() && g.holder != g.Identity() {
		g.lose()
	}
	// The elector takes a record for renewed where these bytes differ, and a Lease's
	// hold its time in whole seconds.
	return record, fmt.Appendf(raw, " %d", record.RenewTime.UnixNano()), nil
}

// Create writes the first record.
func (g *guard) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return g.renew(ctx, record, g.Interface.Create)
}

// Update renews, takes or releases the lock.
func (g *guard) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		return g.release(ctx, record)
	}
	if g.fresh() {
		return nil
	}
	return g.renew(ctx, record, g.Interface.Update)
}

func (g *guard) renew(
	ctx context.Context,
	record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, g.config.RequestTimeout)
	defer cancel()
	// The start of the request, not its end, is what every candidate's wait is
	// certainly later than. The elector stamps its records earlier, and the second of
	// two attempts like the first, whose answer may have been lost: candidates that
	// saw the first would not tell the second from it.
	begun := time.Now()
	record.RenewTime = metav1.NewTime(begun)
	err := write(ctx, record)
	g.contact.asked(err)
	if err != nil {
		return err
	}
	// The lock is ours now: the record that was read before it was taken is the past.
	*g.seen = sighting{}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holder = record.HolderIdentity
	g.renewed = begun
	return nil
}

// fresh says that the lock is ours and that it is too early to renew it: the elector
// asks once in PollPeriod, and is told that it has renewed.
func (g *guard) fresh() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.isLost && g.holder == g.Identity() && !g.renewed.IsZero() &&
		time.Since(g.renewed) < g.config.RetryPeriod
}

func (g *guard) release(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	g.mu.Lock()
	g.lose()
	working := g.working
	g.mu.Unlock()
	if working != nil {
		select {
		case <-working:
		case <-ctx.Done():
			return fmt.Errorf("wait for the work to end before the release: %w", context.Cause(ctx))
		}
	}
	g.mu.Lock()
	holder := g.holder
	g.mu.Unlock()
	if holder != g.Identity() {
		return fmt.Errorf("release the lock of %q: %w", holder, errNotOurs)
	}
	ctx, cancel := context.WithTimeout(ctx, g.config.RequestTimeout)
	defer cancel()
	err := g.Interface.Update(ctx, record)
	g.contact.asked(err)
	return err
}

// lose ends the term for good. The caller holds mu.
func (g *guard) lose() {
	if !g.isLost {
		g.isLost = true
		close(g.lost)
	}
}

// sighting is what a process saw last of another one that leads. Its zero value saw
// none. It is for one goroutine at a time: the elector's.
type sighting struct {
	// lasts is how long the other's lease lasts; zero if nobody else led.
	lasts time.Duration
	// missing is when its lock was first found missing; zero if it is there.
	missing time.Time
}

// note takes note of a record that was read.
func (s *sighting) note(record *resourcelock.LeaderElectionRecord, self string) {
	*s = sighting{}
	if record.HolderIdentity != "" && record.HolderIdentity != self {
		s.lasts = time.Duration(record.LeaseDurationSeconds) * time.Second
	}
}

// recent says, of a lock that is missing, that the other may still lead. Its last
// renewal may be later than the last look at the lock, but not than this first one in
// vain.
func (s *sighting) recent() bool {
	if s.lasts == 0 {
		return false
	}
	if s.missing.IsZero() {
		s.missing = time.Now()
	}
	return time.Since(s.missing) < s.lasts
}
