package query

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// interval and maxInterval bound the time between two lookups while requests wait.
	interval    = 25 * time.Millisecond
	maxInterval = 250 * time.Millisecond
	// maxLookup bounds the keys of one request, and lookupTimeout the requests of one lookup.
	maxLookup     = 1000
	lookupTimeout = 10 * time.Second
	// MaxWaits bounds the requests that wait at the same time. Each holds a connection, which
	// takes about 30 KiB.
	MaxWaits = 2000
	// maxPairs bounds the pairs of all waiting requests.
	maxPairs = 20_000
)

// errBusy is returned if more requests or pairs wait than the process allows.
var errBusy = errors.New("too many requests wait; retry later")

// errStopping is returned if the process is stopping.
var errStopping = errors.New("the process is stopping; ask another one")

// Poller looks up the pairs of all waiting requests together. Make it with [NewPoller].
type Poller struct {
	source Source
	logger zerolog.Logger
	// wake tells Run that a request waits.
	wake chan struct{}

	mu      sync.Mutex
	waits   map[*wait]struct{}
	pairs   int
	stopped bool
}

// Pair is an event of an aggregate in a projection.
type Pair struct {
	Key
	EventID int64
}

// wait is a waiting request.
type wait struct {
	since time.Time
	pairs []Pair
	// looked is the last status of each pair; nil before the first lookup.
	looked []Status
	// err is the error of the last lookup; nil if it succeeded.
	err error
	// decided is closed when the answer is known, or the process stops.
	decided chan struct{}
	// last is set after the timeout, so that the next lookup ends the wait.
	last bool
}

// NewPoller makes a poller. It answers only while [Poller.Run] runs.
func NewPoller(source Source, logger zerolog.Logger) *Poller {
	return &Poller{source: source, logger: logger, wake: make(chan struct{}, 1), waits: make(map[*wait]struct{})}
}

// Run looks up pairs until ctx ends. Then every waiting request gets [ErrStopping].
func (p *Poller) Run(ctx context.Context) error {
	defer p.stop()
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return nil
		}
		for p.lookUp(ctx) {
			looked := time.Now()
			select {
			case <-time.After(p.pause()):
			case <-p.wake:
				_ = poll.Wait(ctx, interval-time.Since(looked))
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// pause returns the time until the next lookup: a quarter of how long the latest request waits. Soon
// after an event was stored, each millisecond counts; while MongoDB or the topic is slow, lookups
// would slow it down further.
func (p *Poller) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var latest time.Time
	for w := range p.waits {
		if w.since.After(latest) {
			latest = w.since
		}
	}
	return max(interval, min(time.Since(latest)/4, maxInterval))
}

// Await waits until the pairs are applied or one of them is parked, for at most timeout
// but at least for one lookup. It returns the status of each pair as of the last lookup.
// The error is [ErrBusy], [ErrStopping], the cause of ctx, or, if no lookup has
// succeeded, the error of the last one. A timeout is not an error.
func (p *Poller) Await(ctx context.Context, pairs []Pair, timeout time.Duration) ([]Status, error) {
	w := &wait{since: time.Now(), pairs: pairs, decided: make(chan struct{})}
	if err := p.add(w); err != nil {
		return nil, err
	}
	defer p.remove(w)
	over := time.NewTimer(timeout)
	defer over.Stop()
	for {
		select {
		case <-w.decided:
			return p.known(w)
		case <-over.C:
			if p.endAtNextLookup(w) {
				return p.known(w)
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// endAtNextLookup reports whether there was a lookup for the wait. If not, the first one
// will end it.
func (p *Poller) endAtNextLookup(w *wait) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.last = true
	return w.looked != nil || w.err != nil
}

// known returns the result of a wait that has ended.
func (p *Poller) known(w *wait) ([]Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case w.looked != nil:
		return w.looked, nil
	case w.err != nil:
		return nil, w.err
	}
	return nil, errStopping
}

func (p *Poller) add(w *wait) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		return errStopping
	case len(p.waits) >= MaxWaits, p.pairs+len(w.pairs) > maxPairs:
		return errBusy
	}
	p.waits[w] = struct{}{}
	p.pairs += len(w.pairs)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return nil
}

// remove removes a wait that has not ended.
func (p *Poller) remove(w *wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.waits[w]; ok {
		delete(p.waits, w)
		p.pairs -= len(w.pairs)
	}
}

// Waiting returns the number of pairs of all waiting requests.
func (p *Poller) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pairs
}

// lookUp looks up the pairs of all waiting requests, and reports whether requests still
// wait.
func (p *Poller) lookUp(ctx context.Context) bool {
	waits, keys := p.wanted()
	if len(waits) == 0 {
		return false
	}
	found := make(map[Key]Status, len(keys))
	var failure error
	looking, cancel := mongox.Timeout(ctx, lookupTimeout)
	defer cancel()
	for len(keys) > 0 {
		part := keys[:min(len(keys), maxLookup)]
		keys = keys[len(part):]
		statuses, err := p.source.LookUp(looking, part)
		if err != nil {
			failure = err
			continue
		}
		for i, key := range part {
			found[key] = statuses[i]
		}
	}
	if failure != nil && ctx.Err() == nil {
		p.logger.Warn().Err(failure).Msg("read models not read for waiting requests; retrying")
	}
	return p.decide(waits, found, failure)
}

// wanted returns the waits, and their keys without duplicates.
func (p *Poller) wanted() (waits []*wait, keys []Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make(map[Key]struct{})
	for w := range p.waits {
		waits = append(waits, w)
		for _, pair := range w.pairs {
			if _, ok := seen[pair.Key]; !ok {
				seen[pair.Key] = struct{}{}
				keys = append(keys, pair.Key)
			}
		}
	}
	return waits, keys
}

// decide ends the waits whose result is known, and reports whether others remain.
func (p *Poller) decide(waits []*wait, found map[Key]Status, failure error) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range waits {
		if _, ok := p.waits[w]; !ok {
			continue
		}
		if looked, complete := statusesOf(w.pairs, found); complete {
			w.looked, w.err = looked, nil
		} else {
			w.err = failure
		}
		if w.last || w.looked != nil && result(w.pairs, w.looked) != Pending {
			delete(p.waits, w)
			p.pairs -= len(w.pairs)
			close(w.decided)
		}
	}
	return len(p.waits) > 0
}

// statusesOf returns the status of each pair, if all were found.
func statusesOf(pairs []Pair, found map[Key]Status) (statuses []Status, complete bool) {
	statuses = make([]Status, len(pairs))
	for i, pair := range pairs {
		status, ok := found[pair.Key]
		if !ok {
			return nil, false
		}
		statuses[i] = status
	}
	return statuses, true
}

// result returns the result of several pairs: parked if one is parked, applied if all are
// applied, otherwise pending.
func result(pairs []Pair, statuses []Status) Result {
	together := Applied
	for i := range pairs {
		switch statuses[i].result(pairs[i].EventID) {
		case ParkedResult:
			return ParkedResult
		case Pending:
			together = Pending
		}
	}
	return together
}

// stop ends all remaining waits with errStopping: their clients ask another process.
func (p *Poller) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for w := range p.waits {
		w.looked, w.err = nil, nil
		close(w.decided)
	}
	clear(p.waits)
	p.pairs = 0
}
