package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errNotOurs prevents an elector from releasing the lock of another process.
var errNotOurs = errors.New("lock is not held by this process")

// guard is the lock that one term's elector sees. It knows how long the last renewal may be
// trusted, detects when another process holds the lock, and permits a release only when no
// work runs and this process holds the lock.
//
// A release is the write of a record without a holder; no other write has none.
type guard struct {
	resourcelock.Interface

	config  Config
	contact *contact
	// lost is closed when another process holds the lock, or when the elector wants to
	// release it.
	lost chan struct{}

	mu sync.Mutex
	// holder is the holder in the record that was read or written last.
	holder string
	// renewed is the start of the last successful renewal's request; zero before the first.
	renewed time.Time
	// working is closed when the work has ended; nil before it began.
	working chan struct{}
	isLost  bool
}

func newGuard(lock resourcelock.Interface, config Config, contact *contact) *guard {
	return &guard{Interface: lock, config: config, contact: contact, lost: make(chan struct{})}
}

// begin records that work begins. It reports false if the lock has been lost since the
// elector took it: then no work may begin.
func (g *guard) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isLost || g.renewed.IsZero() || time.Since(g.renewed) >= g.config.trust() {
		return false
	}
	g.working = make(chan struct{})
	return true
}

// end records that the work has ended.
func (g *guard) end() { close(g.working) }

// deadline is when the last successful renewal is no longer trusted.
func (g *guard) deadline() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.renewed.Add(g.config.trust())
}

// Get reads the record, and ends the term if it names another holder.
func (g *guard) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, g.config.RequestTimeout)
	defer cancel()
	record, raw, err := g.Interface.Get(ctx)
	g.contact.read(record, err)
	if err != nil {
		return nil, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holder = record.HolderIdentity
	if !g.renewed.IsZero() && g.holder != g.Identity() {
		g.lose()
	}
	// The elector takes a record as renewed if these bytes differ, and a Lease has its time
	// in whole seconds.
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
	// Every candidate begins to wait after the start of this request. The elector would use
	// an earlier time, and would use the same time in a second attempt after a lost answer,
	// so candidates that saw the first write would not see the second as a renewal.
	begun := time.Now()
	record.RenewTime = metav1.NewTime(begun)
	err := write(ctx, record)
	g.contact.wrote(err)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holder = record.HolderIdentity
	g.renewed = begun
	return nil
}

// fresh reports whether this process holds the lock and it is too early to renew it. The
// elector asks every PollPeriod, and gets success without a write.
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
	g.contact.wrote(err)
	return err
}

// lose ends the term for good. The caller holds mu.
func (g *guard) lose() {
	if !g.isLost {
		g.isLost = true
		close(g.lost)
	}
}
