package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

const (
	keepingYAML = `
projections:
  - name: orders
    collection: orders
    aggregateType: Order
    on:
      Set: {set: {n: payload.n, "deep.text": payload.text}}
      Add: {inc: {n: payload.n}, push: {all: payload.n}}
      Bad: {inc: {n: payload.none}}
`
	deletingYAML = keepingYAML + "      Delete: {delete: true}\n"
)

// typed are events 1, 2, 3 … of an aggregate with these types.
func typed(aggregate string, kinds ...string) []stored {
	events := historyOf(aggregate, int64(len(kinds)))
	for i := range events {
		events[i].kind = kinds[i]
	}
	return events
}

// newYAML is a world with a projection in YAML, whose read models have the events.
func newYAML(t *testing.T, yaml string, events ...stored) *world {
	t.Helper()
	w := newWorldOf(t, yaml, events...)
	if err := w.workers().build(t.Context(), testJob, span{}, &saver{saves: -1}); err != nil {
		t.Fatal(err)
	}
	clear(w.parked)
	return w
}

// verifiers make workers that verify. Their clock moves only while they wait.
func (w *world) verifiers(set ...func(*Options)) *Workers {
	workers := w.workers(append([]func(*Options){func(o *Options) {
		o.Listing, o.Findings, o.Ranges = NewDatabase(w.database), NewFindingStore(w.database), 3
		o.Target = func(context.Context, string, int64) (engine.Target, error) { return *w.target(), nil }
	}}, set...)...)
	now := time.Unix(1e9, 0)
	workers.now = func() time.Time { return now }
	workers.wait = func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil }
	return workers
}

// verify does a job with the workers, and gives its findings by aggregate and its counts.
func (w *world) verify(t *testing.T, workers *Workers, p Params) (map[string]Finding, map[string]int64) {
	t.Helper()
	j := job.Job{ID: "j", Kind: job.Verify, Projection: "orders", Generation: 2, Params: testkit.Raw(p)}
	findings := NewFindingStore(w.database)
	if err := findings.Delete(t.Context(), []string{"j"}); err != nil {
		t.Fatal(err)
	}
	ranges, _, err := workers.Plan(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, bounds := range ranges {
		s := &saver{saves: -1}
		if err := workers.Work(t.Context(), j, job.Range{Part: bounds}, s); err != nil {
			t.Fatal(err)
		}
		for name, n := range s.r.counts {
			counts[name] += n
		}
	}
	list, err := findings.List(t.Context(), "j", 100)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Finding{}
	for _, f := range list {
		found[f.AggregateID] = f
	}
	return found, counts
}

// kindsOf are the kinds of findings.
func kindsOf(found map[string]Finding) map[string]Kind {
	kinds := map[string]Kind{}
	for id := range found {
		kinds[id] = found[id].Kind
	}
	return kinds
}

// change changes a document of the read models.
func (w *world) change(t *testing.T, aggregate, operator string, fields bson.D) {
	t.Helper()
	result, err := w.database.Collection("orders.generation-2").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: aggregate}}, bson.D{{Key: operator, Value: fields}})
	if err != nil || result.ModifiedCount != 1 {
		t.Fatalf("changed %+v, %v", result, err)
	}
}

func one(key string, value any) bson.D { return bson.D{{Key: key, Value: value}} }

// remove deletes a document of a collection.
func (w *world) remove(t *testing.T, collection string, filter bson.D) {
	t.Helper()
	if result, err := w.database.Collection(collection).DeleteOne(t.Context(), filter); err != nil || result.DeletedCount != 1 {
		t.Fatalf("deleted %+v, %v", result, err)
	}
}

const noEvents = "the event store has no event of the aggregate"

// falsifications falsify the read model of the aggregate "a", which has three events, or of
// another one. remedy is empty if a repair corrects the finding, or else a part of its error.
var falsifications = map[string]struct {
	do     func(t *testing.T, w *world)
	id     string
	want   Kind
	remedy string
}{
	"a value":              {func(t *testing.T, w *world) { t.Helper(); w.change(t, "a", "$set", one("n", int64(999))) }, "a", Different, ""},
	"the type of a number": {func(t *testing.T, w *world) { t.Helper(); w.change(t, "a", "$set", one("n", int32(6))) }, "a", Different, ""},
	"another field":        {func(t *testing.T, w *world) { t.Helper(); w.change(t, "a", "$set", one("more", nil)) }, "a", Different, ""},
	"a missing field":      {func(t *testing.T, w *world) { t.Helper(); w.change(t, "a", "$unset", one("n", "")) }, "a", Different, ""},
	"no watermark": {
		func(t *testing.T, w *world) { t.Helper(); w.change(t, "a", "$unset", one("lastEventId", "")) }, "a", Different, "delete it by hand, and repeat the command",
	},
	"a watermark beyond the last event": {
		func(t *testing.T, w *world) { t.Helper(); w.change(t, "a", "$set", one("lastEventId", int64(1000))) }, "a", Extra, "beyond the last event in the store, 3",
	},
	"a newer generation": {
		func(t *testing.T, w *world) { t.Helper(); w.change(t, "a", "$set", one("lastGeneration", int64(3))) }, "a", OldGeneration,
		`"projector projections rebuild" replaces the document`,
	},
	"set aside":   {func(t *testing.T, w *world) { t.Helper(); w.change(t, "a", "$set", one("lastGeneration", int64(0))) }, "a", OldGeneration, ""},
	"no document": {func(t *testing.T, w *world) { t.Helper(); w.remove(t, "orders.generation-2", one("_id", "a")) }, "a", Missing, ""},
	"an erased aggregate that has events again": {func(t *testing.T, w *world) {
		t.Helper()
		w.remove(t, "orders.generation-2", one("_id", "a"))
		w.hasNone(t, "a", model.Erased)
	}, "a", Behind, "a message from before the erasure"},
	"an event that is not projected": {func(t *testing.T, w *world) {
		t.Helper()
		w.store(t, stored{aggregate: "a", aggregateType: "Order", id: 4, kind: "Add"})
	}, "a", Behind, ""},
	"an event that the store lacks": {func(t *testing.T, w *world) {
		t.Helper()
		w.remove(t, "events", bson.D{{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: int64(2)}})
	}, "a", Extra, "the event store lacks event 2"},
	"a document that events have deleted": {func(t *testing.T, w *world) { t.Helper(); w.has(t, "deleted", 2, 2) }, "deleted", Different, ""},
	"a document without events":           {func(t *testing.T, w *world) { t.Helper(); w.has(t, "nobody", 3, 2) }, "nobody", Extra, noEvents},
	"a foreign document without events":   {func(t *testing.T, w *world) { t.Helper(); w.has(t, "nobody", 3, 1) }, "nobody", Extra, noEvents},
	"a watermark without events":          {func(t *testing.T, w *world) { t.Helper(); w.hasNone(t, "nobody", 3) }, "nobody", Extra, noEvents},
	// It counts once.
	"a document and a watermark without events": {func(t *testing.T, w *world) {
		t.Helper()
		w.has(t, "nobody", 3, 2)
		w.hasNone(t, "nobody", 3)
	}, "nobody", Extra, noEvents},
	"an _id that is not a string": {func(t *testing.T, w *world) {
		t.Helper()
		if _, err := w.database.Collection("orders.generation-2").InsertOne(t.Context(), one("_id", int32(42))); err != nil {
			t.Fatal(err)
		}
	}, `{"$numberInt":"42"}`, Extra, "_id is not a string"},
}

// store stores an event.
func (w *world) store(t *testing.T, e stored) {
	t.Helper()
	if _, err := w.events.InsertOne(t.Context(), e.document()); err != nil {
		t.Fatal(err)
	}
}

// TestVerificationFindsAndRepairsExactlyWhatIsWrong falsifies one read model in every listed way,
// among others that are right. Each history fits into a batch, or is read page by page.
func TestVerificationFindsAndRepairsExactlyWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, f := range falsifications {
		for _, long := range []int{2, batchLimits.long} {
			t.Run(fmt.Sprintf("%s, %d", name, long), func(t *testing.T) {
				t.Parallel()
				w := newYAML(t, deletingYAML, slices.Concat(typed("a", "Set", "Add", "Add"), typed("deleted", "Set", "Delete"), typed("other", "Other", "Add"), customer("customer", 2))...)
				workers := w.verifiers()
				workers.limits.long = long
				if found, counts := w.verify(t, workers, Params{Repair: true}); len(found) > 0 || counts[CountAggregates] != 4 || counts[CountEvents] < 9-3 {
					t.Fatalf("found %+v before, counts %v", found, counts)
				}
				f.do(t, w)
				want := map[string]Kind{f.id: f.want}
				if found, counts := w.verify(t, workers, Params{}); !maps.Equal(kindsOf(found), want) || Wrong(counts) != 1 {
					t.Errorf("found %+v, counts %v, want %v", found, counts, want)
				}
				found, counts := w.verify(t, workers, Params{Repair: true})
				if got := found[f.id]; got.Repaired != (f.remedy == "") || !strings.Contains(got.RepairError, f.remedy) || counts[CountRepaired] != map[bool]int64{true: 1}[got.Repaired] {
					t.Errorf("repaired %+v, counts %v", got, counts)
				}
				if found, _ := w.verify(t, workers, Params{}); f.remedy == "" && len(found) > 0 || f.remedy != "" && !maps.Equal(kindsOf(found), want) {
					t.Errorf("found %+v after the repair", found)
				}
				if found, counts := w.verify(t, workers, Params{Aggregate: "other"}); len(found) > 0 || counts[CountAggregates] != 1 {
					t.Errorf("found %+v, counts %v of another aggregate alone", found, counts)
				}
			})
		}
	}
}

func TestUnknownAggregateIsCountedAlone(t *testing.T) {
	t.Parallel()
	w := newYAML(t, keepingYAML, typed("a", "Set")...)
	if found, counts := w.verify(t, w.verifiers(), Params{Aggregate: "nobody"}); len(found) > 0 || counts[CountUnknown] != 1 || counts[CountAggregates] != 0 {
		t.Errorf("found %+v, counts %v", found, counts)
	}
}

// TestVerificationUnderLiveWrites lets a live writer load a read model before the nth request of
// a verification, and write the next event before a later request. Each write of the verification
// leaves a document that equals the fold of its events, and so does the end.
func TestVerificationUnderLiveWrites(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a value", "set aside", "no document"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for loads, reached := 1, true; reached; loads++ {
				for waits := range 4 {
					reached = verifyBesideWriter(t, name, loads, loads+waits)
				}
			}
		})
	}
}

func verifyBesideWriter(t *testing.T, falsification string, loads, writes int) (reached bool) {
	t.Helper()
	w := newYAML(t, deletingYAML, typed("a", "Set", "Add", "Add")...)
	if falsification != "" {
		falsifications[falsification].do(t, w)
	}
	workers, unit := w.verifiers(), w.target().Unit("a")
	var live []model.Write
	request := 0
	w.hook = func() error {
		if request++; request == loads {
			e := stored{aggregate: "a", aggregateType: "Order", id: 4, kind: "Add"}
			w.store(t, e)
			ev, err := w.reader.Read(testkit.Raw(e.document()))
			states, loadErr := w.parts.Load(t.Context(), []model.Unit{unit})
			if err != nil || loadErr != nil {
				t.Fatal(err, loadErr)
			}
			defer w.Release(states)
			// A writer without the event before applies nothing.
			if fold := w.projection.Begin(states[0].Document); states[0].Watermark == 3 && fold.Add([]*event.Event{&ev}) == nil {
				if write, ok := fold.Write(unit, states[0]); ok {
					live = append(live, write)
				}
			}
		}
		if request == writes && len(live) > 0 {
			if _, err := w.parts.Write(t.Context(), live); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	}
	w.wrote = func() {
		states, err := w.parts.Load(t.Context(), []model.Unit{unit})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Release(states)
		if j := newJudge(w.target(), "a", states[0], 0); states[0].Document != nil {
			a := aggregate{id: "a", raw: testkit.Value("a")}
			if err := workers.readFrom(t.Context(), &a, 1, bson.Timestamp{}, j.add); err != nil {
				t.Fatal(err)
			}
			if f, _ := j.verdict(); f != nil {
				t.Errorf("loaded before request %d, written before %d: a write has left %+v", loads, writes, f)
			}
		}
	}
	found, _ := w.verify(t, workers, Params{Repair: true})
	if len(found) > 1 || falsification == "" && kindsOf(found)["a"] != "" && kindsOf(found)["a"] != Behind {
		t.Errorf("loaded before request %d, written before %d: found %+v", loads, writes, found)
	}
	w.hook, w.wrote = func() error { return nil }, func() {}
	w.sweep(t)
	if found, _ := w.verify(t, workers, Params{Repair: true}); len(found) > 0 {
		t.Errorf("loaded before request %d, written before %d: found %+v afterwards", loads, writes, found)
	}
	return request >= loads
}

// A live writer has folded an event into the read model, or the grace period for it ends.
func TestLateAggregateIsAFindingOnlyAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]int{9 * time.Second: 0, 11 * time.Second: 1} {
		w := newYAML(t, keepingYAML, slices.Concat(typed("a", "Set"), typed("b", "Set"))...)
		w.store(t, stored{aggregate: "a", aggregateType: "Order", id: 2, kind: "Add"})
		workers := w.verifiers()
		begun, wait := workers.now(), workers.wait
		workers.wait = func(ctx context.Context, d time.Duration) error {
			err := wait(ctx, d)
			if workers.now().Sub(begun) >= after {
				w.sweep(t)
			}
			return err
		}
		if found, _ := w.verify(t, workers, Params{GraceMillis: 10_000}); len(found) != want || want > 0 && (found["a"].Kind != Behind || !found["a"].Undelivered) {
			t.Errorf("caught up after %v: found %+v", after, found)
		}
	}
}

// TestParkedReadModelMustHaveTheEventsBeforeTheParkedOne checks that parking excuses only the
// events from the parked one on.
func TestParkedReadModelMustHaveTheEventsBeforeTheParkedOne(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at, has int64
		hole    bool
		want    Kind
	}{
		"it has them":                  {at: 4, has: 3, want: Parked},
		"it lacks all":                 {at: 4, want: Missing},
		"it lacks all, and needs none": {at: 1, want: Parked},
		"it lacks one":                 {at: 4, has: 2, want: Behind},
		"it lacks those after a hole":  {at: 5, has: 2, hole: true, want: Parked},
		"it is wrong":                  {at: 4, has: 3, want: Different},
	} {
		w := newWorld(t, historyOf("a", 5)...)
		w.parked["a"] = model.Marker{EventID: test.at}
		if test.has > 0 {
			w.has(t, "a", test.has, 2)
		}
		if test.hole {
			w.remove(t, "events", bson.D{{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: int64(3)}})
		}
		if test.want == Different {
			w.change(t, "a", "$set", one("applied", "9,"))
		}
		found, counts := w.verify(t, w.verifiers(), Params{})
		if found["a"].Kind != test.want || Wrong(counts) > 0 == (test.want == Parked) {
			t.Errorf("%s: found %+v, counts %v, want %s", name, found, counts, test.want)
		}
	}
}

// TestRepairParksWhatItTakesBack checks a read model that has events after one that cannot be
// folded. The next live event must not be applied to the repaired read model.
func TestRepairParksWhatItTakesBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kinds    []string
		at       int64
		repaired bool
		n        int64
	}{{[]string{"Add", "Bad", "Add"}, 2, true, 1}, {[]string{"Bad", "Add", "Other"}, 1, false, 4}} {
		w := newYAML(t, keepingYAML, typed("a", test.kinds...)...)
		documents := w.database.Collection("orders.generation-2")
		if _, err := documents.DeleteMany(t.Context(), bson.D{}); err != nil {
			t.Fatal(err)
		}
		document := bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: int64(4)}, {Key: "lastEventId", Value: int64(3)}, {Key: "lastGeneration", Value: int64(2)}}
		if _, err := documents.InsertOne(t.Context(), document); err != nil {
			t.Fatal(err)
		}
		found, _ := w.verify(t, w.verifiers(), Params{Repair: true})
		if f := found["a"]; f.Kind != Different || f.Repaired != test.repaired || !f.Repaired && !strings.Contains(f.RepairError, "reason expression") {
			t.Errorf("%v: found %+v", test.kinds, f)
		}
		var got bson.Raw
		if err := documents.FindOne(t.Context(), bson.D{}).Decode(&got); err != nil || w.parked["a"].EventID != test.at || got.Lookup("n").AsInt64() != test.n {
			t.Errorf("%v: parked at event %d, the document is %s, %v", test.kinds, w.parked["a"].EventID, got, err)
		}
	}
}

// A repair waits for the grace period. If another generation was promoted meanwhile, or can be at
// any time, readers must not see what the repair writes, and then lose it. A finding about the
// read models of another generation is not stored.
func TestRepairEndsWithItsGeneration(t *testing.T) {
	t.Parallel()
	errGone := errors.New("no generation 2 any more")
	promotable := func(w *Workers) {
		w.Succeeded = func(context.Context, string, int64) (bool, error) { return true, nil }
	}
	for name, test := range map[string]struct {
		set  func(w *Workers)
		want string
	}{
		"it is repaired": {func(*Workers) {}, ""},
		"promoted": {func(w *Workers) {
			target, begun := w.Target, w.now()
			w.Target = func(ctx context.Context, projection string, generation int64) (engine.Target, error) {
				if w.now().After(begun.Add(500 * time.Millisecond)) {
					return engine.Target{}, errGone
				}
				return target(ctx, projection, generation)
			}
		}, errGone.Error()},
		"can be promoted":            {promotable, "after its promotion"},
		"can be promoted in a sweep": {promotable, "no finding"},
		"found after":                {func(w *Workers) { w.Current = func(context.Context, string, int64) error { return errGone } }, "no finding"},
	} {
		w := newYAML(t, keepingYAML, typed("a", "Set")...)
		w.remove(t, "orders.generation-2", one("_id", "a"))
		workers := w.verifiers(func(o *Options) { o.Current = nil })
		test.set(workers)
		params := Params{Aggregate: "a", Repair: true, GraceMillis: 1000}
		if test.want == "no finding" {
			j, want := job.Job{ID: "j", Kind: job.Verify, Projection: "orders", Generation: 2, Params: testkit.Raw(params)}, errGone
			if strings.HasSuffix(name, "sweep") {
				j.Kind, want = job.Reconcile, errReplaceable
			}
			err := workers.Work(t.Context(), j, job.Range{Part: testkit.Raw(span{Direction: single})}, &saver{saves: -1})
			if found, _ := NewFindingStore(w.database).List(t.Context(), "j", 10); !errors.Is(err, want) || len(found) > 0 {
				t.Errorf("%s: error %v, found %+v", name, err, found)
			}
		} else if found, _ := w.verify(t, workers, params); found["a"].Kind != Missing || !strings.Contains(found["a"].RepairError, test.want) || found["a"].Repaired != (test.want == "") {
			t.Errorf("%s: found %+v", name, found)
		}
		if written := len(w.models(t)) > 0; written != (test.want == "") {
			t.Errorf("%s: the document was written: %v", name, written)
		}
	}
}

// Without the index, each range would fail again and again, and the command would wait for ever.
func TestVerificationFailsWithoutTheIndex(t *testing.T) {
	t.Parallel()
	w := newYAML(t, keepingYAML, typed("a", "Set")...)
	w.hook = func() error { return eventstore.ErrIndex }
	j := job.Job{ID: "j", Kind: job.Verify, Projection: "orders", Generation: 2}
	err := w.verifiers().Work(t.Context(), j, job.Range{Part: testkit.Raw(span{Direction: forward})}, &saver{saves: -1})
	if permanent := job.Permanent(nil); !errors.Is(err, eventstore.ErrIndex) || reflect.TypeOf(err) != reflect.TypeOf(permanent) {
		t.Errorf("the range ended with %T: %v", err, err)
	}
}

// TestJobsRefuseOtherFirstIDs checks that a job writes no read model without its first event: the
// event store can have been empty when the process started.
func TestJobsRefuseOtherFirstIDs(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, keepingYAML, stored{aggregate: "a", id: 0, kind: "Set"}, stored{aggregate: "a", id: 1, kind: "Add"})
	for _, kind := range []job.Kind{job.Build, job.Reconcile, job.Verify} {
		_, _, err := w.verifiers().Plan(t.Context(), job.Job{ID: "j", Kind: kind, Projection: "orders", Generation: 2})
		if !errors.Is(err, eventstore.ErrFirstID) || reflect.TypeOf(err) != reflect.TypeOf(job.Permanent(nil)) {
			t.Errorf("%s: the plan ended with %T: %v", kind, err, err)
		}
	}
}

// TestVerificationContinuesFromTheSavedPosition stops each range at its saves, and does it again
// after its end, like the successor of a process that died then. The counts are those of one
// uninterrupted pass.
func TestVerificationContinuesFromTheSavedPosition(t *testing.T) {
	t.Parallel()
	var events []stored
	for i := range 200 {
		events = append(events, typed(fmt.Sprintf("%03d", i), "Set", "Add", "Add")...)
	}
	w := newYAML(t, keepingYAML, events...)
	for i := range 20 {
		w.change(t, fmt.Sprintf("%03d", i*9), "$set", one("n", "wrong"))
	}
	w.has(t, "zzz", 1, 2)
	_, want := w.verify(t, w.verifiers(), Params{})
	workers := w.verifiers()
	workers.limits.histories = 7
	j := job.Job{ID: "j", Kind: job.Verify, Projection: "orders", Generation: 2}
	ranges, total, err := workers.Plan(t.Context(), j)
	if err != nil || total != 600 {
		t.Fatalf("planned %d events, %v", total, err)
	}
	got, stops := map[string]int64{}, 0
	workers.SaveEvery = 0
	for _, bounds := range ranges {
		s := &saver{stored: true, saves: 3}
		r := job.Range{Part: bounds}
		for ended := 0; ended < 2; {
			switch err := workers.Work(t.Context(), j, r, s); {
			case err == nil:
				ended++
			case !errors.Is(err, errKilled):
				t.Fatal(err)
			default:
				stops++
			}
			r.Position, r.Counts, s.saves = testkit.Raw(s.r.position), s.r.counts, 3+ended*1000
		}
		for name, n := range r.Counts {
			got[name] += n
		}
	}
	if !maps.Equal(got, want) || want["different"] != 20 || want["extra"] != 1 || want["events"] != 600 || stops < 3 {
		t.Errorf("counts %v after %d stops, want %v", got, stops, want)
	}
}

// TestEveryReadEventCountsForTheRate checks that the rate covers the events that are read again to
// confirm a finding and to repair, and that no turn begins before the one before has ended.
func TestEveryReadEventCountsForTheRate(t *testing.T) {
	t.Parallel()
	w := newYAML(t, keepingYAML, slices.Concat(typed("a", "Set", "Add", "Add"), typed("b", "Set", "Add", "Add"))...)
	workers := w.verifiers()
	waited, begun, ended := 0, 0, 0
	workers.begin = func(_ context.Context, events int) (func(), error) {
		if begun != ended {
			t.Errorf("turn %d began before the last one ended", begun+1)
		}
		begun, waited = begun+1, waited+events
		return sync.OnceFunc(func() { ended++ }), nil
	}
	for _, test := range []struct {
		name   string
		params Params
		events int
	}{
		{"one aggregate", Params{Aggregate: "b"}, 3},
		{"all, and a finding again", Params{}, 6 + 3},
		{"a repair, which looks before and after it folds", Params{Repair: true}, 6 + 3 + 3*3},
	} {
		if test.params.Aggregate == "" {
			w.change(t, "a", "$inc", one("n", int64(7)))
		}
		waited = 0
		w.verify(t, workers, test.params)
		if waited != test.events || begun == 0 || begun != ended {
			t.Errorf("%s: waited for %d events in %d turns, of which %d ended, want %d events", test.name, waited, begun, ended, test.events)
		}
	}
	errStop := errors.New("stop")
	workers.begin = func(context.Context, int) (func(), error) { return nil, errStop }
	j := job.Job{ID: "j", Kind: job.Verify, Projection: "orders", Generation: 2}
	if err := workers.Work(t.Context(), j, job.Range{Part: testkit.Raw(span{Direction: forward})}, &saver{saves: -1}); !errors.Is(err, errStop) {
		t.Errorf("the error of the limit is lost: %v", err)
	}
}

// A long history is built, and continued by a sweep, page by page, each in a turn of its own. The events
// of the last page of a sweep are not waited for.
func TestPagesOfALongHistoryCountForTheRate(t *testing.T) {
	t.Parallel()
	const events, page = 2000, 600
	w := newWorld(t, historyOf("a", events)...)
	workers := w.workers()
	workers.limits.long = 100
	var turn sync.Mutex // A turn within another one would wait for ever.
	waited := 0
	workers.begin = func(_ context.Context, events int) (func(), error) {
		turn.Lock()
		if waited += events; events > page {
			t.Errorf("a turn of %d events", events)
		}
		return sync.OnceFunc(turn.Unlock), nil
	}
	w.do(t, workers.build)
	if waited != events {
		t.Errorf("a build waited for %d events", waited)
	}
	w.check(t)
	if _, err := w.database.Collection("orders.generation-2").DeleteOne(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	w.has(t, "a", 1, 2)
	waited = 0
	if w.do(t, workers.sweep); waited < events-page {
		t.Errorf("a sweep waited for %d events", waited)
	}
	w.check(t)
}

// TestNewerAggregateWithTheSameIDIsLeftOut checks that the events of the string "7" are not
// compared with, or folded into, the read model of the older aggregate 7.
func TestNewerAggregateWithTheSameIDIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newYAML(t, keepingYAML)
	for n := range int64(3) {
		for _, id := range []any{int32(7), "7"} {
			d := bson.D{{Key: "aggregateId", Value: id}, {Key: "aggregateType", Value: "Order"}, {Key: "eventId", Value: n + 1}, {Key: "eventType", Value: "Add"}, {Key: "payload", Value: one("n", n)}}
			if _, err := w.events.InsertOne(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			n *= 100
		}
	}
	w.build(t)
	if found, counts := w.verify(t, w.verifiers(), Params{}); len(found) > 0 {
		t.Errorf("found %+v, %v", found, counts)
	}
	w.change(t, "7", "$set", one("n", int64(1)))
	if found, _ := w.verify(t, w.verifiers(), Params{Repair: true}); found["7"].Kind != Different || !found["7"].Repaired {
		t.Errorf("found %+v", found)
	}
	var got bson.Raw
	if err := w.database.Collection("orders.generation-2").FindOne(t.Context(), bson.D{}).Decode(&got); err != nil || got.Lookup("n").AsInt64() != 3 {
		t.Errorf("repaired to %s, %v", got, err)
	}
}

// TestFindingsHoldNoValues checks that a finding has no value of a person, neither in its
// differences nor in the texts of errors. The order of fields is no difference.
func TestFindingsHoldNoValues(t *testing.T) {
	t.Parallel()
	const person = "Ada Lovelace"
	want := bson.D{{Key: "n", Value: int64(3)}, {Key: "deep", Value: one("text", "2")}, {Key: "all", Value: bson.A{int64(2)}}}
	have := bson.D{{Key: "all", Value: bson.A{int32(2), person}}, {Key: "deep", Value: bson.D{{Key: "text", Value: person}, {Key: "more", Value: true}}}}
	for i := range 100 {
		have = append(have, bson.E{Key: fmt.Sprint("field", i), Value: person})
	}
	c := compare(testkit.Raw(want), testkit.Raw(have))
	differences := []Difference{
		{Path: "deep.text", Want: "string", Have: "string"},
		{Path: "deep.more", Have: "bool"},
		{Path: "all.0", Want: "long", Have: "int"},
		{Path: "all.1", Have: "string"},
		{Path: "field0", Have: "string"},
	}
	if text := fmt.Sprint(c.found); !slices.Equal(c.found[1:6], differences) || c.found[0] != (Difference{Path: "n", Want: "long"}) || len(c.found) != 20 || c.more != 85 || strings.Contains(text, person) {
		t.Errorf("%d more than %+v", c.more, c.found)
	}
	slices.Reverse(have)
	same := slices.Clone(have)
	slices.Reverse(same)
	if c := compare(testkit.Raw(have), testkit.Raw(same)); !c.equal() {
		t.Errorf("another order is a difference: %+v", c.found)
	}
	failed := &projection.Error{Projection: "p", AggregateID: "a", EventID: 7, Reason: projection.ReasonExpression, Err: errors.New("no such key: " + person)}
	refused := mongo.WriteError{Code: 11000, Message: "E11000 duplicate key error: { name: \"" + person + "\" }"}
	for err, want := range map[error]string{
		failed: "event 7 cannot be applied, reason expression",
		fmt.Errorf("write a: %w", error(refused)):   "code [11000]",
		errors.New("other processes kept changing"): "other processes",
	} {
		if text := WithoutValues(err); !strings.Contains(text, want) || strings.Contains(text, person) {
			t.Errorf("%v becomes %q, want %q", err, text, want)
		}
	}
}

func TestSampleIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	p, n := Params{Sample: 0.1}, 0
	for i := range 4000 {
		if id := fmt.Sprint(i); p.sampled(id) {
			n++
			if again := (Params{Sample: 0.1}); !again.sampled(id) {
				t.Errorf("%s has left the sample", id)
			}
		}
	}
	if n < 300 || n > 500 {
		t.Errorf("%d of 4000 aggregates are in a sample of a tenth", n)
	}
}
