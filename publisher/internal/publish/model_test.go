package publish_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// scenario is one random workload against one random broker.
type scenario struct {
	seed        uint64
	aggregates  int
	buckets     int // of session keys; 0 means one per aggregate
	events      int
	batching    publish.Batching
	partitioned bool
	dedup       bool
	claimCheck  bool
	connections int
	sends       int
	batch       int
	inflight    int
	bytes       int64
	trouble     int // percentage of the sends that fail transiently
	huge        int // percentage of the events that are too large
	invalid     int // percentage of the events that cannot be encoded
	refused     int // percentage of the events that the topic refuses permanently
	endsEarly   bool
}

func drawScenario(t *rapid.T) scenario {
	s := scenario{
		seed:        rapid.Uint64().Draw(t, "seed"),
		aggregates:  rapid.IntRange(1, 60).Draw(t, "aggregates"),
		buckets:     rapid.IntRange(0, 8).Draw(t, "buckets"),
		events:      rapid.IntRange(0, 600).Draw(t, "events"),
		batching:    rapid.SampledFrom([]publish.Batching{publish.BatchingAuto, publish.BatchingOff, publish.BatchingSession, publish.BatchingMixed}).Draw(t, "batching"),
		partitioned: rapid.Bool().Draw(t, "partitioned"),
		dedup:       rapid.Bool().Draw(t, "dedup"),
		claimCheck:  rapid.Bool().Draw(t, "claimCheck"),
		connections: rapid.IntRange(1, 4).Draw(t, "connections"),
		sends:       rapid.IntRange(1, 40).Draw(t, "sends"),
		batch:       rapid.IntRange(1, 50).Draw(t, "batch"),
		inflight:    rapid.IntRange(1, 300).Draw(t, "inflight"),
		bytes:       rapid.Int64Range(50, 30_000).Draw(t, "bytes"),
		trouble:     rapid.SampledFrom([]int{0, 2, 20}).Draw(t, "trouble"),
		huge:        rapid.SampledFrom([]int{0, 5}).Draw(t, "huge"),
		invalid:     rapid.SampledFrom([]int{0, 5}).Draw(t, "invalid"),
		refused:     rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "refused"),
		endsEarly:   rapid.Bool().Draw(t, "endsEarly"),
	}
	if s.refused > 0 {
		// If every key waits for a refused event, nothing shows that the topic works. So
		// each aggregate has its own key, and one more aggregate has events until the end.
		s.buckets, s.inflight, s.bytes = 0, 2000, 1<<20
	}
	return s
}

// TestOrderUnderFaults runs random workloads with random faults in virtual time:
// latencies, lost connections whose sends arrive, arrive late or are lost, throttling,
// refused batches, events that are refused, too large or cannot be encoded, and an early
// end.
func TestOrderUnderFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScenario(rt)
		var err error
		synctest.Test(t, func(t *testing.T) { err = s.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func (s scenario) run(t *testing.T) error {
	t.Helper()
	random := rand.New(rand.NewPCG(s.seed, 1)) // of the broker, under its mutex
	kinds := make(map[string]string)           // of events, by message id
	topic := newBroker(func(messages []*event.Message) answer { return s.answer(random, kinds, messages) })
	topic.connect = func(int) error {
		if random.IntN(100) < s.trouble {
			return errors.New("connection refused")
		}
		return nil
	}
	session := own
	if s.buckets > 0 {
		session = func(id string) string {
			n, _ := strconv.Atoi(id)
			return strconv.Itoa(n % s.buckets)
		}
	}
	type submitted struct {
		item publish.Item
		kind string
	}
	var stream []submitted
	workload := rand.New(rand.NewPCG(s.seed, 2))
	next := map[string]int64{}
	for i := range s.events {
		aggregate := strconv.Itoa(int(float64(s.aggregates) * workload.Float64() * workload.Float64()))
		next[aggregate]++
		kind := ""
		switch p := workload.IntN(100); {
		case p < s.huge:
			kind = "huge"
		case p < s.huge+s.invalid:
			kind = "invalid"
		case p < s.huge+s.invalid+s.refused:
			kind = "refused"
		}
		it := item(aggregate, next[aggregate])
		it.Ticket, it.Event.Document = uint64(i), make(bson.Raw, 1+workload.IntN(200))
		kinds[fmt.Sprintf("%s/%d", aggregate, it.Event.EventID)] = kind
		stream = append(stream, submitted{it, kind})
	}
	kindOf := func(keys event.Keys) string { return kinds[fmt.Sprintf("%s/%d", keys.AggregateID, keys.EventID)] }

	var problems []error
	h := newHarness(t, topic, func(o *publish.Options) {
		o.Encoder = encoder{session: session, fail: func(ev *event.Event) error {
			if kindOf(ev.Keys) == "invalid" {
				return &event.ContractError{Reason: event.ReasonMalformed}
			}
			return nil
		}}
		o.Batching, o.ClaimCheck = s.batching, s.claimCheck
		o.Connections, o.MaxSends, o.MaxBatchEvents = s.connections, s.sends, s.batch
		o.MaxInflightEvents, o.MaxInflightBytes = s.inflight, s.bytes
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	h.start(ctx)

	ended := errors.New("the term ends")
	if s.endsEarly {
		timer := time.AfterFunc(time.Duration(workload.IntN(20_000))*time.Millisecond, func() { cancel(ended) })
		defer timer.Stop()
	}
	accepted := 0
	for _, e := range stream {
		if workload.IntN(10) == 0 {
			<-time.After(time.Duration(workload.IntN(3)) * time.Millisecond)
		}
		if err := h.Submit(ctx, e.item); err != nil {
			if !s.endsEarly || !errors.Is(err, ended) {
				problems = append(problems, fmt.Errorf("submit: %w", err))
			}
			break
		}
		accepted++
		if events, bytes := h.Inflight(); events > s.inflight || bytes > s.bytes && events > 1 {
			problems = append(problems, fmt.Errorf("%d events of %d bytes are in flight", events, bytes))
		}
	}
	for id, own := int64(1), accepted; s.refused > 0 && ctx.Err() == nil && !h.allAcked(own); id++ {
		probe := submitted{item: item("1000", id)}
		probe.item.Ticket = uint64(len(stream))
		if h.Submit(ctx, probe.item) != nil {
			break
		}
		stream = append(stream, probe)
		accepted++
		<-time.After(time.Second)
	}
	drainErr := h.Drain(ctx)
	runErr := <-h.ran
	if drainErr == nil {
		if runErr != nil && (!s.endsEarly || !errors.Is(runErr, ended)) { // with nothing left when it ended
			problems = append(problems, fmt.Errorf("run after a drain: %w", runErr))
		}
		if accepted != len(stream) && !s.endsEarly || h.ackedEvents() != accepted {
			problems = append(problems, fmt.Errorf("%d of %d events are acknowledged", h.ackedEvents(), accepted))
		}
	} else if !s.endsEarly || !errors.Is(drainErr, ended) || !errors.Is(runErr, ended) {
		problems = append(problems, fmt.Errorf("drain: %w; run: %w", drainErr, runErr))
	}

	// All acknowledged events are on the topic or in the quarantine now. Events whose
	// sends failed may still arrive.
	onTopic := map[string]bool{}
	for _, m := range topic.stored() {
		onTopic[m.MessageID] = true
	}
	for ticket, times := range h.acked {
		e := stream[ticket]
		quarantined := h.quarantined[ticket] != nil
		unpublishable := e.kind == "invalid" || e.kind == "refused" || e.kind == "huge" && !s.claimCheck
		id := fmt.Sprintf("%s/%d", e.item.Event.AggregateID, e.item.Event.EventID)
		if times != 1 || quarantined != unpublishable || onTopic[id] == unpublishable {
			problems = append(problems, fmt.Errorf("event %s (%s) was acknowledged %d times, quarantined: %v, on the topic: %v",
				id, e.kind, times, quarantined, onTopic[id]))
		}
	}
	topic.late.Wait()
	problems = append(problems, checkOrder(topic.stored(), func(aggregate string, id int64) bool {
		kind := kindOf(event.Keys{AggregateID: aggregate, EventID: id})
		return kind == "invalid" || kind == "refused" || kind == "huge" && !s.claimCheck
	}))
	for _, problem := range topic.problems {
		problems = append(problems, errors.New(problem))
	}
	if topic.open != 0 {
		problems = append(problems, fmt.Errorf("%d connections are left open", topic.open))
	}
	return errors.Join(problems...)
}

// answer is the broker's answer: it enforces the topic's rules, and is random otherwise.
func (s scenario) answer(random *rand.Rand, kinds map[string]string, messages []*event.Message) answer {
	a := ok(time.Duration(1+random.IntN(20)) * time.Millisecond)
	keys := map[string]bool{}
	fits := 0
	for i, m := range messages {
		keys[m.SessionKey] = true
		if kinds[m.MessageID] == "huge" && !m.ClaimCheck {
			if i == 0 {
				a.fault = &publish.SendError{Fault: publish.FaultTooLarge, Err: errors.New("too large"), First: random.IntN(2) == 0 || len(messages) == 1}
				return a
			}
			break
		}
		fits = i + 1
	}
	if random.IntN(4) == 0 {
		fits = 1 + random.IntN(fits)
	}
	a.fits = fits
	for i, m := range messages[:fits] {
		if kinds[m.MessageID] == "refused" {
			a.fault = &publish.SendError{Fault: publish.FaultRefused, Err: errors.New("refused"), First: i == 0 && random.IntN(4) == 0}
			return a
		}
	}
	switch {
	case s.partitioned && s.dedup && len(messages) > 1:
		a.fault = &publish.SendError{Fault: publish.FaultBatch, Err: errors.New("no batches")}
		return a
	case s.partitioned && len(keys) > 1:
		a.fault = &publish.SendError{Fault: s.mixedFault(random), Err: errors.New("distinct keys")}
		return a
	}
	if random.IntN(100) >= s.trouble {
		return a
	}
	switch random.IntN(6) {
	case 0:
		a.fault = &publish.SendError{Fault: publish.FaultBusy, Err: errors.New("busy"), Broken: random.IntN(4) == 0}
	case 1:
		a.fault = &publish.SendError{Fault: publish.FaultTransient, Err: errors.New("internal error")}
		a.stored = random.IntN(2) == 0
	case 2:
		a.fault = &publish.SendError{Fault: publish.FaultTooLarge, Err: errors.New("batch too large")}
		if len(messages) == 1 {
			a.fault = nil
		}
	case 3:
		a.after = time.Hour // never
		a.stored = random.IntN(2) == 0
		a.storedAfter = time.Duration(random.IntN(5000)) * time.Millisecond
	default:
		a.fault = &publish.SendError{Fault: publish.FaultDisconnected, Err: errors.New("connection reset")}
		a.stored = random.IntN(2) == 0
		a.storedAfter = time.Duration(random.IntN(5000)) * time.Millisecond
	}
	return a
}

// mixedFault is the fault by which a partitioned topic refuses a batch of several keys.
func (scenario) mixedFault(random *rand.Rand) publish.Fault {
	if random.IntN(2) == 0 {
		return publish.FaultRefused
	}
	return publish.FaultMixed
}

// allAcked reports whether the events with the first n tickets are acknowledged.
func (h *harness) allAcked(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ticket := range uint64(n) {
		if h.acked[ticket] == 0 {
			return false
		}
	}
	return true
}
