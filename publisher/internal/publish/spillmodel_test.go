package publish_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// partialOutages is a random stream over keys that the topic blocks now and then, published
// by terms that end at random.
type partialOutages struct {
	seed       uint64
	aggregates int
	buckets    int // of session keys; 0 means one per aggregate
	events     int
	repeats    int // stretches of the stream that are submitted twice
	inflight   int
	spilled    int
	blocked    int // percentage of the keys that are blocked at any time
	terms      int
	batching   publish.Batching
}

// TestSpilledEventsKeepTheirOrder runs random streams in virtual time. Some keys are blocked
// for a while, so that their events are dropped from memory and read again, from a store
// that is slow and fails. Terms end at random, and the next one starts at the first event
// that was not acknowledged. Each event must reach the topic, and the first occurrences of
// each aggregate in order.
func TestSpilledEventsKeepTheirOrder(t *testing.T) {
	spilled := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := partialOutages{
			seed:       rapid.Uint64().Draw(rt, "seed"),
			aggregates: rapid.IntRange(1, 40).Draw(rt, "aggregates"),
			buckets:    rapid.IntRange(0, 6).Draw(rt, "buckets"),
			events:     rapid.IntRange(0, 1500).Draw(rt, "events"),
			repeats:    rapid.IntRange(0, 20).Draw(rt, "repeats"),
			inflight:   rapid.OneOf(rapid.IntRange(1, 60), rapid.IntRange(61, 300)).Draw(rt, "inflight"),
			spilled:    rapid.IntRange(1, 600).Draw(rt, "spilled"),
			blocked:    rapid.SampledFrom([]int{5, 20, 50}).Draw(rt, "blocked"),
			terms:      rapid.IntRange(1, 4).Draw(rt, "terms"),
			batching:   rapid.SampledFrom([]publish.Batching{publish.BatchingOff, publish.BatchingSession, publish.BatchingMixed}).Draw(rt, "batching"),
		}
		var err error
		synctest.Test(t, func(t *testing.T) {
			var n int
			n, err = s.run(t)
			spilled += n
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
	if spilled == 0 {
		t.Error("no event was dropped from memory, so the test shows nothing")
	}
}

func (s partialOutages) run(t *testing.T) (spilled int, err error) {
	t.Helper()
	workload := rand.New(rand.NewPCG(s.seed, 1))
	random := rand.New(rand.NewPCG(s.seed, 2)) // of the broker, under its mutex
	key := func(aggregate string) string {
		if s.buckets == 0 {
			return aggregate
		}
		n := 0
		_, _ = fmt.Sscan(aggregate, &n)
		return fmt.Sprint("bucket-", n%s.buckets)
	}
	faults := []publish.Fault{publish.FaultTransient, publish.FaultBusy, publish.FaultDisconnected}
	begun := time.Now()
	topic := newBroker(func(messages []*event.Message) answer {
		// Each key is blocked in some of the spans of 20 s, all of which end.
		span := time.Since(begun) / (20 * time.Second)
		for _, m := range messages {
			dice := rand.New(rand.NewPCG(s.seed, uint64(span)<<32|uint64(len(m.SessionKey))<<16|uint64(m.SessionKey[len(m.SessionKey)-1])))
			if span < 20 && dice.IntN(100) < s.blocked {
				return fails(faults[random.IntN(len(faults))])
			}
		}
		return ok(time.Duration(1+random.IntN(30)) * time.Millisecond)
	})
	type submitted struct {
		aggregate string
		id        int64
	}
	stream := make([]submitted, s.events)
	next := map[string]int64{}
	for i := range stream {
		aggregate := fmt.Sprint(workload.IntN(s.aggregates))
		next[aggregate]++
		stream[i] = submitted{aggregate, next[aggregate]}
	}
	for range s.repeats { // a change stream repeats events that a scan has read
		end := workload.IntN(len(stream) + 1)
		length := min(end, 1<<workload.IntN(9))
		stream = slices.Insert(stream, end, stream[end-length:end]...)
	}
	acked := make([]bool, len(stream))
	low := func() int {
		for i, is := range acked {
			if !is {
				return i
			}
		}
		return len(acked)
	}
	store := &reloads{after: time.Duration(workload.IntN(30)) * time.Millisecond}
	dice := rand.New(rand.NewPCG(s.seed, 3))
	store.fail = func() error {
		store.mu.Lock()
		defer store.mu.Unlock()
		if dice.IntN(5) == 0 {
			return errors.New("not primary")
		}
		return nil
	}
	ended := errors.New("the term ends")
	for term := 1; low() < len(stream); term++ {
		h := newHarness(t, topic, func(o *publish.Options) {
			o.Batching, o.Load, o.SessionKey, o.Encoder = s.batching, store.load, key, encoder{session: key}
			o.MaxInflightEvents, o.MaxSpilledEvents, o.MaxBatchEvents = s.inflight, s.spilled, 20
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		if term < s.terms {
			time.AfterFunc(time.Duration(workload.IntN(120_000))*time.Millisecond, func() { cancel(ended) })
		}
		h.start(ctx)
		for i := low(); i < len(stream); i++ {
			it := item(stream[i].aggregate, stream[i].id)
			it.Ticket = uint64(i)
			if h.Submit(ctx, it) != nil {
				break
			}
			if workload.IntN(4) == 0 {
				<-time.After(time.Duration(workload.IntN(100)) * time.Millisecond)
			}
		}
		for late := time.Now().Add(time.Hour); h.pending() && ctx.Err() == nil; {
			if <-time.After(time.Second); time.Now().After(late) {
				cancel(ended)
				return store.count(), errors.Join(fmt.Errorf("term %d: %d events are still not read again", term, h.Spilled()), <-h.ran)
			}
		}
		whole := ctx.Err() == nil // the term leaves no event to the next one
		drained, ran := h.Drain(ctx), <-h.ran
		cancel(nil)
		if ran != nil && !errors.Is(ran, ended) || drained != nil && !errors.Is(drained, ended) {
			return store.count(), fmt.Errorf("term %d: drain: %w; run: %w", term, drained, ran)
		}
		onTopic := map[string]bool{}
		for _, m := range topic.stored() {
			onTopic[m.MessageID] = true
		}
		for ticket, times := range h.acked {
			e := stream[ticket]
			if times != 1 || !onTopic[fmt.Sprintf("%s/%d", e.aggregate, e.id)] {
				return store.count(), fmt.Errorf("term %d: event %s/%d was acknowledged %d times, on the topic: %t",
					term, e.aggregate, e.id, times, onTopic[fmt.Sprintf("%s/%d", e.aggregate, e.id)])
			}
			acked[ticket] = true
		}
		if len(h.quarantined) > 0 {
			return store.count(), fmt.Errorf("term %d: quarantined %v", term, h.quarantined)
		}
		if drained == nil && whole && low() < len(stream) {
			return store.count(), fmt.Errorf("term %d has drained, but event %d is not acknowledged", term, low())
		}
	}
	topic.late.Wait()
	for _, problem := range topic.problems {
		return store.count(), errors.New(problem)
	}
	return store.count(), checkOrder(topic.stored(), nothing)
}
