package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/park/parktest"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/resume"
)

var errFault = errors.New("fault")

// flakyStores holds the stores of a run. Each call has a random latency and can fail.
type flakyStores struct {
	mu     sync.Mutex
	random *rand.Rand
	// faults is the probability that a call fails; half of the failing calls are carried
	// out first.
	faults float64
	// documents are the read models; histories are the event store, by aggregate.
	documents map[model.Unit]document
	histories map[string][]*event.Event
	// published is the time from which sessions and the event store have an event. Holes
	// are events that no session gets, with the time from which the event store has them.
	published, holes map[string]map[int64]time.Time
	// acked are the events that sessions have acknowledged.
	acked map[string]map[int64]bool
	list  *parktest.Collection
}

type document struct {
	watermark int64
	content   bson.Raw
}

// delay lets other goroutines run in between.
func (w *flakyStores) delay() {
	w.mu.Lock()
	d := time.Duration(w.random.IntN(10)) * time.Millisecond
	w.mu.Unlock()
	<-time.After(d)
}

// fails decides whether a call fails: with the run's probability, times part.
func (w *flakyStores) fails(part float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.Float64() < w.faults*part
}

func (w *flakyStores) Load(ctx context.Context, units []model.Unit) ([]model.State, error) {
	w.delay()
	defer w.delay()
	fail := w.fails(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	loaded := make([]model.State, len(units))
	for i, u := range units {
		d := w.documents[u]
		if loaded[i] = (model.State{Document: d.content, Watermark: d.watermark}); fail {
			loaded[i] = model.State{Unavailable: errFault}
		}
	}
	return loaded, context.Cause(ctx)
}

func (w *flakyStores) Write(ctx context.Context, writes []model.Write) ([]model.Written, error) {
	w.delay()
	defer w.delay()
	before, after := w.fails(0.5), w.fails(0.5)
	w.mu.Lock()
	defer w.mu.Unlock()
	written := make([]model.Written, len(writes))
	for i, o := range writes {
		d := w.documents[o.Unit]
		switch {
		case before:
			written[i].Err = errFault
			continue
		case d.watermark != o.From:
			written[i].Status = model.Stale
		case o.Kind == model.Create:
			w.documents[o.Unit], written[i].Status = document{o.To, o.Document}, model.Applied
		default:
			w.documents[o.Unit], written[i].Status = document{o.To, merged(d.content, o.Update)}, model.Applied
		}
		if after {
			written[i] = model.Written{Err: errFault}
		}
	}
	return written, context.Cause(ctx)
}

func (w *flakyStores) Release([]model.State) {}

// merged returns a document after an update's $set.
func merged(content, update bson.Raw) bson.Raw {
	if update == nil {
		return content
	}
	fields := bson.M{}
	for _, raw := range []bson.Raw{content, update.Lookup("$set").Document()} {
		if err := bson.Unmarshal(raw, &fields); err != nil {
			panic(err)
		}
	}
	raw, err := bson.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return raw
}

func (w *flakyStores) Missing(_ context.Context, ev *event.Event, from, to int64, _ int) ([]*event.Event, error) {
	w.delay()
	if w.fails(1) {
		return nil, errFault
	}
	if ev.RawAggregateID.StringValue() != ev.AggregateID {
		return nil, fmt.Errorf("the raw id of %s is %s", ev.AggregateID, ev.RawAggregateID)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Pages are small, so that replays need several.
	const page = 3
	var found []*event.Event
	for _, stored := range w.histories[ev.AggregateID] {
		if stored.EventID >= from && stored.EventID <= to && len(found) < page && w.shown(stored) {
			found = append(found, stored)
		}
	}
	return found, nil
}

// shown reports whether the event store has an event by now.
func (w *flakyStores) shown(ev *event.Event) bool {
	now := time.Now()
	return !w.published[ev.AggregateID][ev.EventID].After(now) && !w.holes[ev.AggregateID][ev.EventID].After(now)
}

// tally counts events and concatenates their ids, which shows each event that is applied
// twice, skipped or out of order. It fails on events of the type Poison.
func tally(state projection.State, ev *event.Event) (projection.State, error) {
	if ev.EventType == "Poison" {
		return nil, errors.New("poison")
	}
	n, ids := int64(0), ""
	if state != nil {
		n, ids = state.Lookup("n").AsInt64(), state.Lookup("ids").StringValue()
	}
	raw, err := bson.Marshal(bson.D{{Key: "n", Value: n + 1}, {Key: "ids", Value: fmt.Sprint(ids, ev.EventID, ",")}})
	return raw, err
}

// run is one randomly drawn sequence of events.
type run struct {
	seed       uint64
	aggregates int
	events     int
	pods       int
	faults     float64
	poison     bool
	increasing bool
}

func (r run) newFlakyStores(tb testing.TB) *flakyStores {
	tb.Helper()
	w := &flakyStores{
		random: rand.New(rand.NewPCG(r.seed, 1)), faults: r.faults, list: parktest.NewCollection(tb, &server),
		documents: map[model.Unit]document{}, histories: map[string][]*event.Event{},
		published: map[string]map[int64]time.Time{}, holes: map[string]map[int64]time.Time{}, acked: map[string]map[int64]bool{},
	}
	step := int64(1)
	if r.increasing {
		step = 3
	}
	for a := range r.aggregates {
		id := fmt.Sprint("a", a)
		kind, value, err := bson.MarshalValue(id)
		if err != nil {
			panic(err)
		}
		w.published[id], w.holes[id], w.acked[id] = map[int64]time.Time{}, map[int64]time.Time{}, map[int64]bool{}
		published := time.Now()
		for i := range r.events {
			ev := &event.Event{
				Keys:           event.Keys{AggregateID: id, EventID: int64(i+1) * step, EventType: "Counted"},
				RawAggregateID: bson.RawValue{Type: kind, Value: value},
			}
			if r.poison && a == 0 && i == r.events/2 {
				ev.EventType = "Poison"
			}
			published = published.Add(time.Duration(w.random.IntN(40)) * time.Millisecond)
			w.published[id][ev.EventID] = published
			if w.random.IntN(6) == 0 && !r.increasing && i+1 < r.events {
				w.holes[id][ev.EventID] = published.Add(time.Duration(w.random.IntN(200)) * time.Millisecond)
			}
			w.histories[id] = append(w.histories[id], ev)
		}
	}
	w.list.Before = func(ctx context.Context, command string) error {
		w.delay()
		for range 3 {
			// Delay writes, so that the state that was read before them has changed.
			if command == mongotest.BulkWrite {
				w.delay()
			}
		}
		if w.fails(1) {
			return errFault
		}
		return context.Cause(ctx)
	}
	return w
}

// take returns a batch of one aggregate's published, unacknowledged events from the first
// one on. Sometimes it repeats acknowledged ones.
func (w *flakyStores) take(r run) []*event.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var batch []*event.Event
	limit := 1 + w.random.IntN(3)
	for _, a := range w.random.Perm(r.aggregates) {
		for _, ev := range w.histories[fmt.Sprint("a", a)] {
			if w.published[ev.AggregateID][ev.EventID].After(time.Now()) {
				break
			}
			if _, lost := w.holes[ev.AggregateID][ev.EventID]; lost {
				w.acked[ev.AggregateID][ev.EventID] = true
				continue
			}
			if acked := w.acked[ev.AggregateID][ev.EventID]; !acked && len(batch) < limit || acked && w.random.IntN(30) == 0 {
				batch = append(batch, ev)
			}
		}
		if len(batch) > 0 {
			return batch
		}
	}
	return nil
}

func (w *flakyStores) allAcked(r run) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, acked := range w.acked {
		if len(acked) < r.events {
			return false
		}
	}
	return true
}

// pod is a projector: a session and a resumer, until ctx ends.
func (w *flakyStores) pod(ctx context.Context, r run, pods *sync.WaitGroup) error {
	p, err := projection.New(projection.Declaration{Name: "tally", Collection: "tally", Apply: tally})
	if err != nil {
		return err
	}
	list := park.NewStore(w.list, park.Options{Reasons: operate.Reasons(), FirstRetry: 10 * time.Millisecond, MaxRetry: time.Second})
	list.Serve([]park.Served{{Projection: "tally"}})
	sequence := event.SequenceStrict
	if r.increasing {
		sequence = event.SequenceIncreasing
	}
	eng, err := engine.New(engine.Options{Targets: engine.Live([]*projection.Projection{p}), Store: w, Parking: list, Repairer: w, Sequence: sequence})
	if err != nil {
		return err
	}
	resumer := resume.New(resume.Options{Claims: list, Engine: eng, Workers: 2, Poll: 50 * time.Millisecond, Lease: 200 * time.Millisecond})
	pods.Go(func() { _ = resumer.Run(ctx) })
	pods.Go(func() {
		for ctx.Err() == nil {
			batch := w.take(r)
			if len(batch) == 0 {
				<-time.After(time.Millisecond)
				continue
			}
			w.mu.Lock()
			attempt := model.Attempt(w.random.IntN(3))
			w.mu.Unlock()
			results, _ := eng.Process(ctx, batch, attempt)
			w.mu.Lock()
			for i, ev := range batch {
				if v := results[i].Outcome; v == model.Done || v == model.Poison {
					w.acked[ev.AggregateID][ev.EventID] = true
				}
			}
			w.mu.Unlock()
		}
	})
	return nil
}

// TestEveryParkedAggregateCatchesUp parks aggregates because an event is missing or a store
// does not answer, while sessions acknowledge their later events. Once the holes are closed
// and the stores answer, every event must take effect exactly once and in order, without
// any further event. Sessions and resumers of several pods interleave at random; the
// projection counts.
func TestEveryParkedAggregateCatchesUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := run{
			seed:       rapid.Uint64().Draw(rt, "seed"),
			aggregates: rapid.IntRange(1, 3).Draw(rt, "aggregates"),
			events:     rapid.IntRange(1, 25).Draw(rt, "events"),
			pods:       rapid.IntRange(1, 3).Draw(rt, "pods"),
			faults:     rapid.SampledFrom([]float64{0, 0.1, 0.4}).Draw(rt, "faults"),
			poison:     rapid.IntRange(0, 3).Draw(rt, "poison") == 0,
			increasing: rapid.IntRange(0, 2).Draw(rt, "increasing") == 0,
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = r.play(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func (r run) play(t *testing.T) error {
	t.Helper()
	w := r.newFlakyStores(t)
	ctx, stop := context.WithCancel(t.Context())
	var pods sync.WaitGroup
	defer pods.Wait()
	defer stop()
	for range r.pods {
		if err := w.pod(ctx, r, &pods); err != nil {
			return err
		}
	}
	<-time.After(2 * time.Second)
	w.mu.Lock()
	w.faults = 0
	w.mu.Unlock()
	// A call that began before the faults were over can still park an aggregate.
	rests := 0
	for range 300 {
		<-time.After(time.Second)
		if rests++; !w.allAcked(r) || w.resumes() {
			rests = 0
		}
		if rests == 10 {
			return w.compare(r)
		}
	}
	return fmt.Errorf("not at rest: acknowledged %v", w.acked)
}

// resumes reports whether a marker is left that will be resumed.
func (w *flakyStores) resumes() bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(w.histories)), func(id string) bool {
		return w.list.Marker(model.Unit{Projection: "tally", AggregateID: id})["retryAt"] != nil
	})
}

// compare compares every read model with its history, up to the poison event.
func (w *flakyStores) compare(r run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, history := range w.histories {
		n, want := 0, strings.Builder{}
		for _, ev := range history {
			if ev.EventType == "Poison" {
				break
			}
			n++
			fmt.Fprint(&want, ev.EventID, ",")
		}
		d := w.documents[model.Unit{Projection: "tally", Generation: 1, Collection: "tally", AggregateID: id}]
		got := ""
		if d.content != nil {
			got = d.content.Lookup("ids").StringValue()
		}
		if got != want.String() {
			return fmt.Errorf("%s has %s, want %s", id, got, want.String())
		}
		marker := w.list.Marker(model.Unit{Projection: "tally", AggregateID: id})
		if poisoned := n < r.events; poisoned != (marker != nil) || poisoned && marker["head"] != history[len(history)-1].EventID {
			return fmt.Errorf("marker of %s is %v", id, marker)
		}
	}
	return nil
}

// TestLateFirstEventIsApplied checks that an aggregate whose second event arrives minutes
// before its first one catches up by itself. By then its marker has the reason history.
func TestLateFirstEventIsApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run{aggregates: 1, events: 2, pods: 1}
		w := r.newFlakyStores(t)
		w.holes["a0"] = map[int64]time.Time{1: time.Now().Add(3 * time.Minute)}
		ctx, stop := context.WithCancel(t.Context())
		var pods sync.WaitGroup
		defer pods.Wait()
		defer stop()
		if err := w.pod(ctx, r, &pods); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Minute)
		if m := w.list.Marker(model.Unit{Projection: "tally", AggregateID: "a0"}); m["reason"] != "history" {
			t.Errorf("the marker is %v", m)
		}
		<-time.After(5 * time.Minute)
		if err := w.compare(r); err != nil {
			t.Error(err)
		}
	})
}
