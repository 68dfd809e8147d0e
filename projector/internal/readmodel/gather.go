package readmodel

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// ErrClosed says that Run has ended. The outcome of the request is unknown.
var ErrClosed = errors.New("the store of read models is closed")

// gatherer collects the items that callers request at about the same time, and processes
// them in groups.
//
// Items queue in lanes; a group holds items of one lane. A group starts
//
//   - when as many items wait as the last group had, because every caller of that group
//     has joined this one; so a caller that was alone does not wait;
//   - or when the first item has waited for the window;
//   - or when the group is full;
//
// but only while fewer than maxBusy groups of the lane are running. Nothing else bounds the
// items that wait: their callers hold them in memory anyway.
type gatherer[T, R any] struct {
	// lane gives the lane of an item. There are few lanes.
	lane func(T) string
	// key is equal for items that must not share a group; nil if all items may.
	key func(T) string
	// size is an item's share of maxBytes.
	size func(T) int
	// carryOut processes a group and gives a result for each item. It has a timeout of its
	// own, and returns soon after ctx ends.
	carryOut func(ctx context.Context, lane string, items []T) []R

	// discard takes the results of a request whose caller has given up; nil if nothing must
	// be done with them.
	discard func([]R)

	window             time.Duration
	maxItems, maxBytes int
	// maxBusy bounds the running groups of one lane.
	maxBusy int

	submitted chan *request[T, R]
	finished  chan *group[T, R]
	ended     chan struct{}
	once      sync.Once
}

// request is one call of do.
type request[T, R any] struct {
	items   []T
	results []R
	open    int
	done    chan struct{}
	// state says who owns the results: see the constants.
	state atomic.Int32
}

// The states of a request: its caller waits, has given up, or has the results. Items of a
// request that was given up are not processed.
const (
	requestWaits int32 = iota
	requestGivenUp
	requestDone
)

// item is an item of a request.
type item[T, R any] struct {
	*request[T, R]
	index int
	size  int
	since time.Time
}

// group is the set of items that are processed together.
type group[T, R any] struct {
	lane    *lane[T, R]
	items   []item[T, R]
	results []R
}

// lane is a queue with the state of its groups.
type lane[T, R any] struct {
	name    string
	waiting []item[T, R]
	// bytes is the size of the waiting items.
	bytes int
	// busy counts the running groups.
	busy int
	// expected is the size of the last group.
	expected int
}

func (g *gatherer[T, R]) init() {
	g.submitted = make(chan *request[T, R])
	g.finished = make(chan *group[T, R])
	g.ended = make(chan struct{})
}

// do processes items and gives their results in the same order.
func (g *gatherer[T, R]) do(ctx context.Context, items []T) ([]R, error) {
	if len(items) == 0 {
		return nil, nil
	}
	r := &request[T, R]{items: items, results: make([]R, len(items)), open: len(items), done: make(chan struct{})}
	err := ErrClosed
	select {
	case g.submitted <- r:
		select {
		case <-r.done:
			return r.results, nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-g.ended:
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-g.ended:
		return nil, ErrClosed
	}
	if !r.state.CompareAndSwap(requestWaits, requestGivenUp) {
		return r.results, nil
	}
	return nil, err
}

// run processes groups until ctx ends. It may run once.
func (g *gatherer[T, R]) run(ctx context.Context) error {
	defer g.once.Do(func() { close(g.ended) })
	work := poll.NewPool(idleWorkers)
	defer func() {
		work.Stop()
		work.Wait()
	}()
	lanes := make(map[string]*lane[T, R])
	busy := 0
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case r := <-g.submitted:
			g.enqueue(lanes, r)
			g.enqueuePending(lanes)
			// Goroutines that are ready to run may be callers, too. On idle cores there are none,
			// and this takes no time.
			runtime.Gosched()
			g.enqueuePending(lanes)
		case done := <-g.finished:
			done.lane.busy--
			busy--
			g.deliver(done)
		case <-timer.C:
		case <-ctx.Done():
			for ; busy > 0; busy-- {
				g.deliver(<-g.finished)
			}
			return context.Cause(ctx)
		}
		now := time.Now()
		next := time.Hour
		for _, l := range lanes {
			for g.due(l, now) {
				started := g.next(l)
				if len(started.items) == 0 {
					continue
				}
				l.busy++
				l.expected = len(started.items)
				busy++
				work.Do(func() {
					started.results = g.carryOut(ctx, l.name, started.values())
					g.finished <- started
				})
			}
			if len(l.waiting) > 0 && l.busy < g.maxBusy {
				next = min(next, g.window-now.Sub(l.waiting[0].since))
			}
		}
		timer.Reset(next)
	}
}

// enqueuePending enqueues the requests of callers that wait already, so that they join the next
// groups.
func (g *gatherer[T, R]) enqueuePending(lanes map[string]*lane[T, R]) {
	for {
		select {
		case r := <-g.submitted:
			g.enqueue(lanes, r)
		default:
			return
		}
	}
}

// enqueue puts a request's items into their lanes.
func (g *gatherer[T, R]) enqueue(lanes map[string]*lane[T, R], r *request[T, R]) {
	now := time.Now()
	for i, value := range r.items {
		name := g.lane(value)
		l := lanes[name]
		if l == nil {
			l = &lane[T, R]{name: name, expected: 1}
			lanes[name] = l
		}
		size := g.size(value)
		l.waiting = append(l.waiting, item[T, R]{request: r, index: i, size: size, since: now})
		l.bytes += size
	}
}

// due reports whether a group of the lane starts now.
func (g *gatherer[T, R]) due(l *lane[T, R], now time.Time) bool {
	if len(l.waiting) == 0 || l.busy >= g.maxBusy {
		return false
	}
	return len(l.waiting) >= min(l.expected, g.maxItems) || l.bytes >= g.maxBytes ||
		now.Sub(l.waiting[0].since) >= g.window
}

// next takes a group from the front of a lane, and skips items that were given up. The
// group is empty if no other item waits.
func (g *gatherer[T, R]) next(l *lane[T, R]) *group[T, R] {
	started := &group[T, R]{lane: l}
	var taken map[string]bool
	if g.key != nil {
		taken = make(map[string]bool)
	}
	rest := l.waiting[:0]
	bytes := 0
	for i, it := range l.waiting {
		if it.state.Load() == requestGivenUp {
			l.bytes -= it.size
			g.settle(it.request)
			continue
		}
		full := len(started.items) == g.maxItems || len(started.items) > 0 && bytes+it.size > g.maxBytes
		if full {
			rest = append(rest, l.waiting[i:]...)
			break
		}
		if g.key != nil {
			key := g.key(it.items[it.index])
			if taken[key] {
				rest = append(rest, it)
				continue
			}
			taken[key] = true
		}
		started.items = append(started.items, it)
		bytes += it.size
	}
	clear(l.waiting[len(rest):])
	l.waiting = rest
	l.bytes -= bytes
	return started
}

func (g *group[T, R]) values() []T {
	values := make([]T, len(g.items))
	for i, it := range g.items {
		values[i] = it.items[it.index]
	}
	return values
}

// deliver gives the results to their requests.
func (g *gatherer[T, R]) deliver(done *group[T, R]) {
	for i, it := range done.items {
		it.results[it.index] = done.results[i]
		g.settle(it.request)
	}
}

// settle counts an item of a request as finished, and ends the request with its last.
func (g *gatherer[T, R]) settle(r *request[T, R]) {
	if r.open--; r.open > 0 {
		return
	}
	if r.state.CompareAndSwap(requestWaits, requestDone) {
		close(r.done)
	} else if g.discard != nil {
		g.discard(r.results)
	}
}
