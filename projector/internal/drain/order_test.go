package drain_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// chaos is a random choice of the faults and sizes of a run.
type chaos struct {
	seed                           uint64
	sessions, aggregates, events   int
	slots, batch, buffer           int
	duplicates, missing, transient int
	losses                         int
	// failures is how often the writes of one aggregate start or stop failing, and
	// outages how often all writes do.
	failures, outages int
	// holes is set if aggregates miss events that the event store lacks too.
	holes              bool
	lock, rtt, latency time.Duration
	// trickle is the longest time between two messages; 0 if all are sent at the start.
	trickle, moment, again time.Duration
	deaf                   bool
	// direct is set if the receivers are those of package sessions.
	direct bool
	poison bool
}

func drawChaos(t *rapid.T) chaos {
	ms := func(label string, from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(t, label)) * time.Millisecond
	}
	return chaos{
		seed:       rapid.Uint64().Draw(t, "seed"),
		sessions:   rapid.IntRange(1, 5).Draw(t, "sessions"),
		aggregates: rapid.IntRange(1, 12).Draw(t, "aggregates"),
		events:     rapid.IntRange(1, 40).Draw(t, "events"),
		slots:      rapid.IntRange(1, 6).Draw(t, "slots"),
		batch:      rapid.IntRange(1, 32).Draw(t, "batch"),
		// An event has a hundred bytes.
		buffer:     rapid.SampledFrom([]int{1, 300, 1000, 3000, 10_000, 1 << 20}).Draw(t, "buffer"),
		duplicates: rapid.IntRange(0, 30).Draw(t, "duplicates"),
		missing:    rapid.IntRange(0, 10).Draw(t, "missing"),
		transient:  rapid.IntRange(0, 20).Draw(t, "transient"),
		losses:     rapid.IntRange(0, 20).Draw(t, "losses"),
		failures:   rapid.IntRange(0, 20).Draw(t, "failures"),
		outages:    rapid.IntRange(0, 3).Draw(t, "outages"),
		holes:      rapid.Bool().Draw(t, "holes"),
		lock:       ms("lock", 1500, 20000),
		rtt:        ms("rtt", 0, 30),
		latency:    ms("latency", 0, 200),
		trickle:    ms("trickle", 0, 40),
		moment:     ms("moment", 0, 2),
		again:      ms("again", 0, 20),
		deaf:       rapid.Bool().Draw(t, "deaf"),
		poison:     rapid.Bool().Draw(t, "poison"),
		direct:     rapid.Bool().Draw(t, "direct"),
	}
}

// run drains with two processes under the faults, and returns an error if the result is
// wrong.
func (c chaos) run(t *testing.T) error {
	t.Helper()
	random := rand.New(rand.NewPCG(c.seed, 1))
	percent := func(n int) bool { return random.IntN(100) < n }
	broker := newFakeBroker(c.rtt, c.lock)
	broker.moment, broker.again, broker.direct = c.moment, c.again, c.direct
	m := newReadModels(c.latency)
	m.deaf = c.deaf
	var mu sync.Mutex
	side := rand.New(rand.NewPCG(c.seed, 2))
	chance := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return side.IntN(100) < n
	}
	m.transient = func() bool { return chance(c.transient) }
	broker.settleErr = func() error {
		if chance(c.transient) {
			return errors.New("somehow")
		}
		return nil
	}

	// Each aggregate's events are sent in order, sometimes repeated, with gaps that only
	// the event store can close. The last event is always sent.
	want := make(map[string]int64)
	next := make([]int64, c.aggregates)
	type message struct {
		session, aggregate string
		id                 int64
	}
	var messages []message
	for range c.aggregates * c.events {
		a := random.IntN(c.aggregates)
		if next[a] == int64(c.events) {
			continue
		}
		next[a]++
		key := fmt.Sprint("aggregate-", a)
		session := fmt.Sprint("bucket-", a%c.sessions)
		want[key] = next[a]
		hole := c.holes && m.lost[key] == 0 && next[a] < int64(c.events) && percent(10)
		if hole {
			m.lost[key] = next[a]
		}
		if !hole && !percent(c.missing) {
			messages = append(messages, message{session, key, next[a]})
		}
		if percent(c.duplicates) {
			messages = append(messages, message{session, key, 1 + random.Int64N(next[a])})
		}
	}
	for a, n := range next {
		if n > 0 {
			key := fmt.Sprint("aggregate-", a)
			m.store[key] = n
			messages = append(messages, message{fmt.Sprint("bucket-", a%c.sessions), key, n})
		}
	}
	pauses := rand.New(rand.NewPCG(c.seed, 3))
	send := func() {
		for _, m := range messages {
			if c.trickle > 0 {
				pause(t.Context(), time.Duration(pauses.Int64N(int64(c.trickle))))
			}
			broker.send(m.session, m.aggregate, m.id)
		}
	}
	if c.trickle == 0 {
		send()
	}
	if c.poison && next[0] > 0 {
		at := 1 + random.Int64N(next[0])
		m.poison["aggregate-0"] = at
		want["aggregate-0"] = at - 1
	}

	var running []*setup
	for range 2 {
		running = append(running, start(t, broker, m, func(o *drain.Options) {
			o.Slots, o.BatchSize, o.BufferBytes, o.SessionTenure = c.slots, c.batch, c.buffer, 5*time.Second
		}))
	}
	var sending sync.WaitGroup
	if c.trickle > 0 {
		sending.Go(send)
	}
	for range c.losses {
		pause(t.Context(), time.Duration(random.IntN(1000))*time.Millisecond)
		if held := broker.held(); len(held) > 0 {
			broker.loseLock(held[random.IntN(len(held))])
		}
	}
	for i := range c.failures + c.outages {
		pause(t.Context(), time.Duration(random.IntN(2000))*time.Millisecond)
		if i < c.failures {
			m.fail(fmt.Sprint("aggregate-", random.IntN(c.aggregates)), i%2 == 0)
		} else {
			m.outage(i%2 == 0)
		}
	}
	m.recover()
	sending.Wait()
	begin := time.Now()
	for broker.unsettled() > 0 && time.Since(begin) < 30*time.Minute {
		pause(t.Context(), 10*time.Millisecond)
	}
	m.resume()
	problems := []error{m.check(want)}
	if n := broker.unsettled(); n > 0 {
		problems = append(problems, fmt.Errorf("%d messages are not settled", n))
	}
	for _, s := range running {
		s.stop()
		problems = append(problems, <-s.done)
	}
	return errors.Join(append(problems, broker.left())...)
}

// Messages are delivered twice, released, lost during a write or never sent, and
// aggregates fail for any time. In the end, every aggregate's events have taken effect
// once each and in order, and every message is settled.
func TestAnyInterleavingTakesEffectOnceAndInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChaos(rt)
		var err error
		synctest.Test(t, func(t *testing.T) { err = c.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}
