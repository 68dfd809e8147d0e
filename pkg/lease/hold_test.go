package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/lease"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

var (
	errLost    = errors.New("another process has the lease")
	errExpired = errors.New("no renewal was answered")
)

var fields = lease.Fields{Until: "until", Holder: "holder", Epoch: "epoch"}

const lasts = 30 * time.Second

// network is the connection of a process. It delays requests and answers, and for some time
// loses all requests, or all answers.
type network struct {
	mu     sync.Mutex
	random *rand.Rand
	faults float64
	slow   time.Duration
	// silent is the time until which it loses requests, or answers if deaf is set.
	silent time.Time
	deaf   bool
}

// draw returns the fate of a request.
func (n *network) draw() (before, after time.Duration, lost, deaf bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.random.Float64() < n.faults/4 {
		n.silent, n.deaf = time.Now().Add(time.Duration(n.random.IntN(90))*time.Second), n.random.IntN(4) == 0
	}
	delay := func() time.Duration {
		if n.random.Float64() > n.faults {
			return 0
		}
		return time.Duration(n.random.Int64N(int64(n.slow)))
	}
	return delay(), delay(), time.Now().Before(n.silent), n.deaf
}

// pass lets the time pass. Go 1.26 with the race detector crashes if two goroutines of a bubble
// receive at once from timers that have already fired (runtime/time.go, unlockAndRun).
func pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// send sends a request, which can reach the server after its caller has gone.
func (n *network) send(ctx context.Context, requests *sync.WaitGroup, request func(context.Context) error) error {
	before, after, lost, deaf := n.draw()
	answer := make(chan error, 1)
	if !lost || deaf {
		requests.Go(func() {
			pass(before)
			err := request(context.WithoutCancel(ctx))
			pass(after)
			if !lost {
				answer <- err
			}
		})
	}
	select {
	case err := <-answer:
		return err
	case <-time.After(20 * time.Second):
		return context.DeadlineExceeded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Processes take the lease, work under it and release it, over a network that delays, loses
// and reorders their requests. Work that ends with its context, within the margin, never runs
// twice at the same time. A request that names the epoch of an earlier holder changes nothing.
func TestWorkOfTwoHoldersNeverOverlaps(t *testing.T) {
	t.Parallel()
	terms := 0
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		faults := rapid.Float64Range(0, 0.7).Draw(rt, "faults")
		slow := time.Duration(rapid.IntRange(1, 30).Draw(rt, "slow")) * time.Second
		synctest.Test(t, func(t *testing.T) {
			p := &processes{Collection: newDocument(t)}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var running sync.WaitGroup
			for i, name := range []string{"one", "two", "three"} {
				n := &network{random: rand.New(rand.NewPCG(seed, uint64(i))), faults: faults, slow: slow}
				running.Go(func() { p.run(ctx, t, n, name) })
			}
			running.Wait()
			p.requests.Wait()
			terms += p.terms
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
	if terms < 20 {
		t.Errorf("processes worked %d times", terms)
	}
}

type processes struct {
	*mongotest.Collection
	requests sync.WaitGroup

	mu      sync.Mutex
	working string
	last    int64
	terms   int
}

func (p *processes) run(ctx context.Context, t *testing.T, n *network, name string) {
	t.Helper()
	for ctx.Err() == nil {
		var epoch int64
		taken := time.Now()
		err := n.send(ctx, &p.requests, func(ctx context.Context) error {
			got, err := change(ctx, p.Collection, fields.Free(), fields.Take(name, lasts)...)
			if got != nil {
				epoch = got.Lookup("epoch").Int64()
			}
			return err
		})
		if err == nil && epoch > 0 {
			p.hold(ctx, t, n, name, epoch, taken)
		}
		<-time.After(2 * time.Second)
	}
}

// end sets the end of the lease. The error is errLost if another process has it.
func (p *processes) end(ctx context.Context, n *network, epoch int64, end bson.E) error {
	return n.send(ctx, &p.requests, func(ctx context.Context) error {
		got, err := change(ctx, p.Collection, fields.Held(epoch), end)
		if err == nil && got == nil {
			return errLost
		}
		return err
	})
}

func (p *processes) hold(ctx context.Context, t *testing.T, n *network, name string, epoch int64, taken time.Time) {
	t.Helper()
	renew := func(ctx context.Context) error { return p.end(ctx, n, epoch, fields.Renew(lasts)) }
	held := lease.Options{
		Taken: taken, Lasts: lasts, Expired: errExpired, Renew: renew,
		Final: func(err error) bool { return errors.Is(err, errLost) }, Retried: func(error) {},
	}
	err := lease.Hold(ctx, held, func(ctx context.Context, h *lease.Held) {
		p.mu.Lock()
		if p.working != "" || epoch <= p.last {
			t.Errorf("%s begins epoch %d while %q works, after epoch %d", name, epoch, p.working, p.last)
		}
		p.working, p.last, p.terms = name, epoch, p.terms+1
		p.mu.Unlock()
		for range 15 {
			select {
			case <-ctx.Done():
			case <-time.After(9 * time.Second):
				_ = h.Renewing(func() error { return renew(ctx) })
			}
		}
		<-time.After(lasts/6 - time.Millisecond)
		p.mu.Lock()
		p.working = ""
		p.mu.Unlock()
	})
	switch {
	case err == nil:
		_ = p.end(context.WithoutCancel(ctx), n, epoch, fields.Release(0))
	case !errors.Is(err, errLost) && !errors.Is(err, errExpired):
		t.Errorf("the work of %s was ended by %v", name, err)
	}
}
