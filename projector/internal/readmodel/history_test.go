package readmodel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// The projections under test: one with every operator, deletes and failures, one
// that never deletes, one in Go.
const declarations = `
projections:
  - name: orders
    collection: orders
    on:
      Created:
        set: {status: "'new'", customer: payload.customer, address: "{'zip': payload.zip}"}
        inc: {created: 1}
      ItemAdded:
        inc: {items: payload.quantity, totals.quantity: payload.quantity}
        push: {lines: "{'sku': payload.sku, 'quantity': payload.quantity}"}
        addToSet: {skus: payload.sku}
        max: {most: payload.quantity}
        min: {least: payload.quantity}
      ItemRemoved:
        when: payload.sku in state.?skus.orValue([])
        pull: {skus: payload.sku}
        unset: [address]
        set: {status: state.status + "-"}
      Cancelled:
        delete: true
      Broken:
        when: state.?items.orValue(0) > 3
        set: {never: 1 / payload.zero}
  - name: journal
    collection: journal
    on:
      ItemAdded:
        inc: {count: 1}
        push: {ids: eventId}
      Cancelled:
        set: {cancelled: eventId}
`

// kinds are the types of events, with weights that let documents live a while.
var kinds = []string{"Created", "ItemAdded", "ItemAdded", "ItemAdded", "ItemRemoved", "Cancelled", "Noted", "Broken"}

// scenario is a history, and the faults of its delivery.
type scenario struct {
	seed       uint64
	histories  [][]*event.Event
	pods       int
	lost       float64
	unanswered float64
	// refused is the probability that a document is refused, as by a unique index. It is
	// drawn for each attempt.
	refused  float64
	crash    bool
	sequence event.Sequence
	step     int64
}

func drawScenario(t *rapid.T) scenario {
	s := scenario{
		seed:       rapid.Uint64().Draw(t, "seed"),
		pods:       rapid.IntRange(1, 3).Draw(t, "pods"),
		lost:       rapid.SampledFrom([]float64{0, 0, 0.05, 0.2}).Draw(t, "lost"),
		unanswered: rapid.SampledFrom([]float64{0, 0, 0.05, 0.2}).Draw(t, "unanswered"),
		refused:    rapid.SampledFrom([]float64{0, 0, 0, 0.1}).Draw(t, "refused"),
		crash:      rapid.Bool().Draw(t, "crash"),
		sequence:   rapid.SampledFrom([]event.Sequence{event.SequenceStrict, event.SequenceIncreasing}).Draw(t, "sequence"),
		step:       1,
	}
	if s.sequence == event.SequenceIncreasing {
		s.step = 3
	}
	for a := range rapid.IntRange(1, 3).Draw(t, "aggregates") {
		var history []*event.Event
		for i := range rapid.IntRange(1, 14).Draw(t, "events") {
			history = append(history, newEvent(fmt.Sprintf("a%d", a), int64(i+1)*s.step,
				rapid.SampledFrom(kinds).Draw(t, "kind"),
				rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "sku"),
				rapid.Int64Range(1, 4).Draw(t, "quantity")))
		}
		s.histories = append(s.histories, history)
	}
	return s
}

func newEvent(aggregate string, id int64, kind, sku string, quantity int64) *event.Event {
	return &event.Event{
		Keys: event.Keys{AggregateID: aggregate, AggregateType: "Order", EventID: id, EventType: kind},
		Payload: bsontest.Value(bson.D{
			{Key: "customer", Value: "c" + aggregate}, {Key: "zip", Value: "z" + sku}, {Key: "sku", Value: sku},
			{Key: "quantity", Value: quantity}, {Key: "zero", Value: 0},
		}),
	}
}

func testProjections() ([]*projection.Projection, error) {
	declared, err := projection.Parse("test.yaml", []byte(declarations))
	if err != nil {
		return nil, err
	}
	inGo, err := projection.New(projection.Declaration{Name: "totals", Collection: "totals", Deletes: true, Apply: applyTotals})
	return append(declared, inGo), err
}

// TestAnyDeliveryEndsWithTheFold checks the guarantee of the read models. Events come in
// any batches, any number of times, on any number of pods that do not know each other.
// Commands and replies are lost, and pods crash with writes in flight. In the end, each
// read model equals the fold of its events.
func TestAnyDeliveryEndsWithTheFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScenario(rt)
		var err error
		synctest.Test(t, func(*testing.T) { err = s.play() })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// topic keeps the events that are not acknowledged.
type topic struct {
	mu     sync.Mutex
	acked  []map[int64]bool
	random *rand.Rand
}

// take returns a batch of an aggregate: the events from the first unacknowledged one on,
// with some earlier ones repeated, and sometimes with a hole.
func (q *topic) take(s *scenario) []*event.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []*event.Event
	for a, history := range s.histories {
		open := 0
		for open < len(history) && q.acked[a][history[open].EventID] {
			open++
		}
		if open == len(history) && q.random.IntN(4) > 0 {
			continue
		}
		from := max(0, open-q.random.IntN(4))
		to := min(len(history), open+1+q.random.IntN(6))
		part := append([]*event.Event(nil), history[from:to]...)
		if len(part) > 1 && q.random.IntN(5) == 0 && s.sequence == event.SequenceStrict {
			at := q.random.IntN(len(part))
			part = append(part[:at], part[at+1:]...)
		}
		if len(part) > 0 && q.random.IntN(6) == 0 {
			part = append(part, part[q.random.IntN(len(part))])
		}
		batch = append(batch, part...)
		if q.random.IntN(2) == 0 {
			break
		}
	}
	return batch
}

func (q *topic) empty(s *scenario) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for a, history := range s.histories {
		if len(q.acked[a]) < len(history) {
			return false
		}
	}
	return true
}

func (q *topic) acknowledge(s *scenario, events []*event.Event, results []model.Verdict) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, ev := range events {
		if results[i].Outcome.Final() {
			for a, history := range s.histories {
				if history[0].AggregateID == ev.AggregateID {
					q.acked[a][ev.EventID] = true
				}
			}
		}
	}
}

// memoryParking is the parked list in memory.
type memoryParking struct {
	mu     sync.Mutex
	parked map[model.Unit]int64
	// moves says that a unit may pass the event at which it was parked.
	moves bool
}

func (p *memoryParking) Parked(_ context.Context, units []model.Unit) ([]model.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	parked := make([]model.Position, len(units))
	for i, u := range units {
		parked[i].EventID = p.parked[u]
	}
	return parked, nil
}

// errNotTaken refuses units that must be resumed, because nothing resumes them here.
var errNotTaken = errors.New("only what can never be applied is parked here")

func (p *memoryParking) Park(_ context.Context, parked []model.Marker) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range parked {
		if u.Resumes {
			return errNotTaken
		}
		if at, ok := p.parked[u.Unit]; ok && at != u.EventID && !p.moves {
			return fmt.Errorf("parked at %d and %d", at, u.EventID)
		}
		p.parked[u.Unit] = u.EventID
	}
	return nil
}

func (p *memoryParking) Advance(context.Context, []model.Head) error { return nil }

// Missing reads the history as the event store.
func (s *scenario) Missing(_ context.Context, ev *event.Event, from, to int64, limit int) ([]*event.Event, error) {
	var found []*event.Event
	for _, history := range s.histories {
		for _, stored := range history {
			if stored.AggregateID == ev.AggregateID && stored.EventID >= from && stored.EventID <= to && len(found) < min(limit, 2) {
				found = append(found, stored)
			}
		}
	}
	return found, nil
}

var errCrash = errors.New("the pod crashes")

// play delivers until every event is acknowledged, and compares.
func (s *scenario) play() error {
	db := newFakeDatabase(s.seed)
	db.latency = 5 * time.Millisecond
	db.lost, db.unanswered = s.lost, s.unanswered
	refused := s.refused
	db.refuse = func(collection string, _ bson.Raw) error {
		if collection != watermarksCollection && db.random.Float64() < refused {
			return writeError(11000, "E11000 duplicate key error collection: db.things index: email_1 dup key: { email: 1 }", "email")
		}
		return nil
	}
	parking, err := s.deliver(db, s.unsent())
	if err != nil {
		return err
	}
	<-time.After(time.Minute) // what crashed pods have sent arrives
	if refused == 0 {
		return s.compare(db.documents, parking)
	}
	if err := s.compareRefused(db.documents, parking); err != nil || s.sequence != event.SequenceStrict {
		return err
	}
	// An operator deletes the markers. Then each aggregate's next event is sufficient.
	refused = 0
	next := s.unsent()
	for a, history := range s.histories {
		for _, ev := range history[:len(history)-1] {
			next[a][ev.EventID] = true
		}
	}
	if parking, err = s.deliver(db, next); err != nil {
		return err
	}
	<-time.After(time.Minute)
	return s.compare(db.documents, parking)
}

// unsent is the acknowledgements at the start: none.
func (s *scenario) unsent() []map[int64]bool {
	acked := make([]map[int64]bool, len(s.histories))
	for a := range acked {
		acked[a] = make(map[int64]bool)
	}
	return acked
}

// deliver runs pods until every event is acknowledged.
func (s *scenario) deliver(db database, acked []map[int64]bool) (*memoryParking, error) {
	parking := &memoryParking{parked: make(map[model.Unit]int64), moves: s.refused > 0}
	queue := &topic{acked: acked, random: rand.New(rand.NewPCG(s.seed, 2))}
	var pods sync.WaitGroup
	failures := make(chan error, s.pods)
	for range s.pods {
		pods.Go(func() {
			for !queue.empty(s) {
				if err := s.pod(db, parking, queue); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	pods.Wait()
	close(failures)
	return parking, <-failures
}

// pod runs a projector, which may end early.
func (s *scenario) pod(db database, parking *memoryParking, queue *topic) error {
	projections, err := testProjections()
	if err != nil {
		return err
	}
	ctx, crash := context.WithCancelCause(context.Background())
	defer crash(nil)
	w, l := newWriter(db, WriterOptions{}), newLoader(db, LoaderOptions{})
	var loops sync.WaitGroup
	loops.Go(func() { _ = w.Run(ctx) })
	loops.Go(func() { _ = l.Run(ctx) })
	defer loops.Wait()
	defer crash(nil)
	eng, err := engine.New(engine.Options{
		Targets: engine.Live(projections), Store: testStore{w, l}, Parking: parking, Repairer: s, Sequence: s.sequence,
	})
	if err != nil {
		return err
	}
	if s.crash {
		queue.mu.Lock()
		life := time.Duration(queue.random.Int64N(int64(200 * time.Millisecond)))
		queue.mu.Unlock()
		timer := time.AfterFunc(life, func() { crash(errCrash) })
		defer timer.Stop()
	}
	var sessions sync.WaitGroup
	for range 2 {
		sessions.Go(func() {
			for ctx.Err() == nil && !queue.empty(s) {
				batch := queue.take(s)
				if len(batch) == 0 {
					<-time.After(time.Millisecond)
					continue
				}
				queue.mu.Lock()
				attempt := model.Attempt(queue.random.IntN(3))
				queue.mu.Unlock()
				results, err := eng.Process(ctx, batch, attempt)
				if err != nil && ctx.Err() == nil {
					// The caller of the engine retries with a pause.
					<-time.After(time.Millisecond)
				}
				queue.acknowledge(s, batch, results)
			}
		})
	}
	sessions.Wait()
	return nil
}
