package readmodel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// setAsideAll gives every read model generation 0, like a repair that stops after this
// step.
func setAsideAll(t *rapid.T, db *fakeDatabase) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for collection, records := range db.collections {
		for _, r := range records {
			if collection == watermarksCollection || r.document == nil {
				continue
			}
			var document bson.D
			err := bson.Unmarshal(r.document, &document)
			if err == nil {
				r.document, err = bson.Marshal(append(document, bson.E{Key: model.FieldLastGeneration, Value: setAside}))
			}
			if err != nil {
				t.Fatal(err)
			}
			r.version++
		}
	}
}

// wholeHistory is the event store of a scenario, with pages that hold a whole history.
type wholeHistory struct{ *scenario }

func (w wholeHistory) Missing(_ context.Context, _ *event.Event, from, to int64, _ int) ([]*event.Event, error) {
	return slices.DeleteFunc(slices.Clone(w.histories[0]), func(ev *event.Event) bool { return ev.EventID < from || ev.EventID > to }), nil
}

// inTransaction reports whether a transaction has written something and has not ended.
func (f *fakeDatabase) inTransaction() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, records := range f.collections {
		for _, r := range records {
			if r.owner != nil {
				return true
			}
		}
	}
	return false
}

// TestForeignDocumentIsReplacedInOneStep checks, for ids that only increase, that no
// writer sees an aggregate without its document while another writer replaces a foreign
// one. Such a writer would apply its event to nothing, and no gap would show that.
func TestForeignDocumentIsReplacedInOneStep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &scenario{sequence: event.SequenceIncreasing, step: 3, seed: rapid.Uint64().Draw(rt, "seed")}
		var history []*event.Event
		for i := range rapid.IntRange(2, 8).Draw(rt, "events") {
			kind := rapid.SampledFrom([]string{"Created", "ItemAdded", "ItemAdded", "Cancelled", "Noted"}).Draw(rt, "kind")
			history = append(history, newEvent("a0", int64(i+1)*s.step, kind, "x", 1))
		}
		s.histories = [][]*event.Event{history}
		applied := rapid.IntRange(1, len(history)-1).Draw(rt, "applied")
		db := newFakeDatabase(s.seed)
		parking := &memoryParking{parked: make(map[model.Unit]int64)}
		// Only one step is atomic, so a history of several pages is written without other
		// writers.
		concurrent := rapid.Bool().Draw(rt, "concurrent")
		var store engine.Repairer = s
		if concurrent {
			store = wholeHistory{s}
		}
		eng := func() *engine.Engine {
			projections, err := testProjections()
			if err != nil {
				rt.Fatal(err)
			}
			e, err := engine.New(engine.Options{
				Targets: engine.Live(projections), Store: newTestStore(rt, db), Parking: parking, Repairer: store, Sequence: s.sequence,
			})
			if err != nil {
				rt.Fatal(err)
			}
			return e
		}
		// try returns an error for rt's goroutine, because rapid allows only that
		// goroutine to fail a check.
		try := func(e *engine.Engine, events []*event.Event) error {
			for range 20 {
				results, err := e.Process(rt.Context(), events, model.Repair)
				for errors.Is(err, engine.ErrContended) {
					// The transaction of another goroutine is open, and ends by itself.
					runtime.Gosched()
					results, err = e.Process(rt.Context(), events, model.Repair)
				}
				if err != nil {
					return err
				}
				if !slices.ContainsFunc(results, func(r model.Verdict) bool { return r.Outcome == model.Retry }) {
					return nil
				}
			}
			return fmt.Errorf("events %v are still pending", events)
		}
		process := func(e *engine.Engine, events []*event.Event) {
			if err := try(e, events); err != nil {
				rt.Fatal(err)
			}
		}
		first, second := eng(), eng()
		process(first, history[:applied])
		setAsideAll(rt, db)

		// The second engine gets the same session's events before a request of the first
		// one arrives, but not inside a transaction, because it would wait for the end of
		// the transaction.
		before := rapid.Int64Range(1, 12).Draw(rt, "before request")
		until := rapid.IntRange(applied+1, len(history)).Draw(rt, "until")
		var requests atomic.Int64
		var interposed atomic.Bool
		failed := make(chan error, 1)
		db.onArrival = func(string, string) {
			if concurrent && requests.Add(1) >= before && !db.inTransaction() && interposed.CompareAndSwap(false, true) {
				failed <- try(second, history[applied:until])
			}
		}
		process(first, history[applied:applied+1])
		db.onArrival = nil
		if interposed.Load() {
			if err := <-failed; err != nil {
				rt.Fatal(err)
			}
		}
		process(first, history[applied:])
		if err := s.compare(db.documents, parking); err != nil {
			rt.Fatal(fmt.Errorf("after %d of %d events: %w", applied, len(history), err))
		}
	})
}
