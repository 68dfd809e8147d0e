package history_test

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
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// definitions are one projection for each case that verification must distinguish.
var definitions = map[string]string{
	"keeps its documents": `
projections:
  - name: p
    collection: things
    on:
      Set: {set: {n: payload.n, "deep.text": payload.text}}
      Add: {inc: {n: payload.n}, push: {all: payload.n}}
`,
	"deletes documents": `
projections:
  - name: p
    collection: things
    on:
      Set: {set: {n: payload.n}}
      Add: {inc: {n: payload.n}, push: {all: payload.n}}
      Delete: {delete: true}
`,
	"one aggregate type": `
projections:
  - name: p
    collection: things
    aggregateType: A
    on:
      Set: {set: {n: payload.n}}
      Delete: {delete: true}
`,
}

var kinds = []string{"Set", "Add", "Delete", "Nothing"}

// live returns a function that takes random steps: it stores events, lets live writers
// load, fold and later write, and parks and resumes aggregates.
func (w *simulation) live(rt *rapid.T, falsified map[string]bool) func() {
	return func() {
		for range rapid.IntRange(0, 2).Draw(rt, "things") {
			id := fmt.Sprint(rapid.IntRange(0, 7).Draw(rt, "id"))
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0, 1, 2:
				w.append(id, rapid.SampledFrom(kinds).Draw(rt, "kind"), rapid.SampledFrom([]string{"A", "A", "B"}).Draw(rt, "type"), rapid.IntRange(0, 3).Draw(rt, "n"))
			case 3, 4, 5:
				if write, ok := w.beginLive(id, rapid.IntRange(1, 3).Draw(rt, "most")); ok {
					w.writing = append(w.writing, write)
				}
			case 6, 7, 8:
				if len(w.writing) > 0 {
					i := rapid.IntRange(0, len(w.writing)-1).Draw(rt, "writer")
					write := w.writing[i]
					w.writing = slices.Delete(w.writing, i, i+1)
					write()
				}
			case 9:
				if falsified == nil && len(w.store[id]) > 0 {
					if w.parked[id] == (model.Position{}) {
						w.parked[id] = model.Position{EventID: 1, Resumes: true}
					} else {
						w.catchUp(id)
						delete(w.parked, id)
					}
				}
			}
		}
	}
}

// catchUp folds the aggregate up to its last event, as resuming does before it removes
// the parking.
func (w *simulation) catchUp(id string) {
	position := w.parked[id]
	delete(w.parked, id)
	for range 1000 {
		write, behind := w.beginLive(id, 100)
		if !behind {
			break
		}
		write()
	}
	w.parked[id] = position
}

func eachDefinition(t *testing.T, test func(t *testing.T, definition string)) {
	t.Helper()
	for name, definition := range definitions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, definition)
		})
	}
}

// TestVerificationFindsNothingInCorrectReadModels lets live writers work between every two
// steps of a verification. In every order, only parked aggregates are reported.
func TestVerificationFindsNothingInCorrectReadModels(t *testing.T) {
	t.Parallel()
	eachDefinition(t, func(t *testing.T, definition string) {
		t.Helper()
		rapid.Check(t, func(rt *rapid.T) {
			w := newSimulation(t, definition)
			live := w.live(rt, nil)
			for range rapid.IntRange(0, 30).Draw(rt, "before") {
				live()
			}
			w.happens = live
			repair := rapid.Bool().Draw(rt, "repair")
			found, counts := w.verify(history.Params{Repair: repair, GraceMillis: 1000})
			for id, f := range found {
				if f.Kind != history.Parked {
					rt.Errorf("found %s of %s: %+v", f.Kind, id, f)
				}
			}
			if history.Wrong(counts) > 0 {
				rt.Errorf("counts are %v", counts)
			}
		})
	})
}

func historyOf(t *testing.T, n int) *simulation {
	t.Helper()
	w := newSimulation(t, definitions["keeps its documents"])
	for i := range n {
		for range 3 {
			w.append(fmt.Sprintf("%03d", i), "Add", "A", i)
		}
	}
	w.settle()
	return w
}

func TestDifferencesNameFieldsAndTypes(t *testing.T) {
	t.Parallel()
	w := newSimulation(t, definitions["keeps its documents"])
	w.append("a", "Set", "A", 1)
	w.append("a", "Add", "A", 2)
	w.settle()
	w.change("a", func(d bson.D) bson.D {
		d = set(d, "deep", bson.D{{Key: "text", Value: "2"}, {Key: "more", Value: true}})
		d = set(d, "all", bson.A{int32(2), "x"})
		return slices.DeleteFunc(d, func(e bson.E) bool { return e.Key == "n" })
	}, "")
	found, _ := w.verifyStill()
	f := found["a"]
	slices.SortFunc(f.Differences, func(a, b history.Difference) int { return strings.Compare(a.Path, b.Path) })
	want := []history.Difference{
		{Path: "all.0", Want: "long", Have: "int", TypeOnly: true},
		{Path: "all.1", Have: "string"},
		{Path: "deep.more", Have: "bool"},
		{Path: "deep.text", Want: "string", Have: "string"},
		{Path: "n", Want: "long"},
	}
	if f.Kind != history.Different || !slices.Equal(f.Differences, want) || f.Watermark != 2 || f.Head != 2 {
		t.Errorf("found %+v", f)
	}
}

// TestFindingsHoldNoValues checks that a finding has no value of a person, neither in its
// differences nor in the texts of errors.
func TestFindingsHoldNoValues(t *testing.T) {
	t.Parallel()
	const person = "Ada Lovelace"
	w := newSimulation(t, definitions["keeps its documents"])
	w.append("a", "Set", "A", 1)
	w.settle()
	w.change("a", func(d bson.D) bson.D {
		return set(set(d, "deep", bson.D{{Key: "text", Value: person}}), "more", bson.A{person})
	}, "")
	found, _ := w.verifyStill()
	if text := fmt.Sprintf("%+v", found); len(found["a"].Differences) < 2 || strings.Contains(text, person) {
		t.Errorf("found %s", text)
	}
	failed := &projection.Error{Projection: "p", AggregateID: "a", EventID: 7, Reason: projection.ReasonExpression, Err: errors.New("no such key: " + person)}
	refused := mongo.WriteError{Code: 11000, Message: "E11000 duplicate key error: { name: \"" + person + "\" }"}
	for err, want := range map[error]string{
		failed: "event 7 cannot be applied, reason expression",
		fmt.Errorf("write a: %w", error(refused)):   "code [11000]",
		errors.New("other processes kept changing"): "other processes",
	} {
		if text := history.WithoutValues(err); !strings.Contains(text, want) || strings.Contains(text, person) {
			t.Errorf("%v becomes %q, want %q", err, text, want)
		}
	}
}

func TestOrderOfFieldsDoesNotCount(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 1)
	w.change("000", func(d bson.D) bson.D { slices.Reverse(d); return d }, "")
	if found, _ := w.verifyStill(); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

func TestFindingsAreBoundedInSize(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 1)
	w.change("000", func(d bson.D) bson.D {
		for i := range 100 {
			d = append(d, bson.E{Key: fmt.Sprint("field", i), Value: strings.Repeat("x", 10_000)})
		}
		return d
	}, "")
	found, _ := w.verifyStill()
	f := found["000"]
	if len(f.Differences) != 20 || f.More != 80 {
		t.Errorf("%d differences and %d more", len(f.Differences), f.More)
	}
	if raw, err := bson.Marshal(f); err != nil || len(raw) > 16<<10 {
		t.Errorf("the finding has %d bytes, %v", len(raw), err)
	}
}

func TestSampleIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 400)
	var first []string
	for i := range w.models {
		w.change(i, func(d bson.D) bson.D { return set(d, "n", "wrong") }, "")
	}
	for range 2 {
		found, counts := w.sampled(0.1)
		ids := slices.Sorted(maps.Keys(found))
		if len(ids) < 20 || len(ids) > 60 || counts[history.CountAggregates] != int64(len(ids)) {
			t.Errorf("%d of 400 aggregates are in a sample of a tenth; counts %v", len(ids), counts)
		}
		if first != nil && !slices.Equal(first, ids) {
			t.Error("the sample has changed")
		}
		first = ids
	}
}

func (w *simulation) sampled(share float64) (map[string]history.Finding, map[string]int64) {
	w.tb.Helper()
	w.still = true
	return w.verify(history.Params{Sample: share})
}

func TestOneAggregateCanBeVerified(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 50)
	for _, id := range []string{"007", "008"} {
		w.change(id, func(d bson.D) bson.D { return set(d, "n", int64(1)) }, "")
	}
	w.calls, w.still = 0, true
	found, counts := w.verify(history.Params{Aggregate: "007"})
	if len(found) != 1 || found["007"].Kind != history.Different || counts[history.CountAggregates] != 1 || w.calls > 20 {
		t.Errorf("found %v, counts %v, in %d calls", found, counts, w.calls)
	}
	if found, counts := w.verify(history.Params{Aggregate: "nobody"}); len(found) != 0 || counts[history.CountUnknown] != 1 || counts[history.CountAggregates] != 0 {
		t.Errorf("found %v, counts %v of an aggregate that there is not", found, counts)
	}
	w.of("nobody").document = documentOf("nobody", 1, 1, bson.Raw{5, 0, 0, 0, 0})
	if found, _ := w.verify(history.Params{Aggregate: "nobody"}); found["nobody"].Kind != history.Extra {
		t.Errorf("found %v of a document without an aggregate", found)
	}
}

// TestParkedAggregateIsReportedWithoutBeingAFinding checks that the document of a parked
// aggregate still must equal the fold up to its watermark.
func TestParkedAggregateIsReportedWithoutBeingAFinding(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 2)
	for _, id := range []string{"000", "001"} {
		w.append(id, "Set", "A", 4)
		w.parked[id] = model.Position{EventID: 4}
	}
	w.change("001", func(d bson.D) bson.D { return set(d, "n", int64(-1)) }, "")
	found, counts := w.verifyStill()
	if found["000"].Kind != history.Parked || found["001"].Kind != history.Different || history.Wrong(counts) != 1 || counts[string(history.Parked)] != 1 {
		t.Errorf("found %v, counts %v", found, counts)
	}
}

// TestParkedReadModelMustHaveTheEventsBeforeTheParkedOne checks that parking excuses only
// the events from the parked one on.
func TestParkedReadModelMustHaveTheEventsBeforeTheParkedOne(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at   int64
		do   func(w *simulation, id string)
		want history.Kind
	}{
		"missing":                      {4, func(w *simulation, id string) { w.of(id).document = nil }, history.Missing},
		"missing, parked at once":      {1, func(w *simulation, id string) { w.of(id).document = nil }, history.Parked},
		"behind":                       {4, func(w *simulation, id string) { w.behind(id, 2) }, history.Behind},
		"just before the parked event": {3, func(w *simulation, id string) { w.behind(id, 2) }, history.Parked},
		"before a hole": {5, func(w *simulation, id string) {
			w.behind(id, 2)
			w.store[id] = slices.Delete(w.store[id], 2, 3)
		}, history.Parked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := historyOf(t, 1)
			w.append("000", "Set", "A", 4)
			w.append("000", "Set", "A", 5)
			w.parked["000"] = model.Position{EventID: test.at}
			test.do(w, "000")
			found, counts := w.verifyStill()
			if found["000"].Kind != test.want || history.Wrong(counts) > 0 == (test.want == history.Parked) {
				t.Errorf("found %v, counts %v, want %s", found, counts, test.want)
			}
		})
	}
}

// behind lets a read model have its events up to a watermark only.
func (w *simulation) behind(id string, watermark int64) {
	acc := w.projection.Begin(nil, watermark)
	if err := acc.Add(w.store[id]); err != nil {
		w.tb.Fatal(err)
	}
	w.of(id).document = documentOf(id, watermark, 1, acc.State())
}

// TestRepairParksWhatItTakesBack checks a read model that has events after one that cannot be
// folded. The next live event must not be applied to the repaired read model.
func TestRepairParksWhatItTakesBack(t *testing.T) {
	t.Parallel()
	const definition = "projections: [{name: p, collection: things, on: {Add: {inc: {n: payload.n}}, Bad: {inc: {n: payload.none}}}}]"
	for _, test := range []struct {
		kinds    string
		at       int64
		repaired bool
		n        int64
	}{{"Add Bad Add", 2, true, 2}, {"Bad Add Other", 1, false, 4}} {
		w := newSimulation(t, definition)
		for _, kind := range strings.Fields(test.kinds) {
			w.append("a", kind, "A", 2)
		}
		w.of("a").document, w.still = documentOf("a", 3, 1, testkit.Raw(bson.D{{Key: "n", Value: int64(4)}})), true
		found, _ := w.verify(history.Params{Repair: true})
		if f := found["a"]; f.Kind != history.Different || f.Repaired != test.repaired || !f.Repaired && !strings.Contains(f.RepairError, "reason expression") {
			t.Errorf("%s: found %+v", test.kinds, f)
		}
		if w.parked["a"].EventID != test.at || w.of("a").document.Lookup("n").AsInt64() != test.n {
			t.Errorf("%s: parked at event %d, the document is %s", test.kinds, w.parked["a"].EventID, w.of("a").document)
		}
	}
}

// TestRepairOfAnExtraReadModelSaysWhatStandsInTheWay checks that a repair neither claims to
// have repaired such a read model nor blames other processes.
func TestRepairOfAnExtraReadModelSaysWhatStandsInTheWay(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 1)
	w.of("nobody").document = documentOf("nobody", 3, 1, bson.Raw{5, 0, 0, 0, 0})
	w.of("set aside").document = documentOf("set aside", 3, 0, bson.Raw{5, 0, 0, 0, 0})
	w.odd = []string{"42"}
	found, counts := w.verify(history.Params{Repair: true, GraceMillis: 1000})
	if len(found) != 3 || counts[history.CountRepaired] != 0 {
		t.Errorf("found %v, counts %v", found, counts)
	}
	for id, reason := range map[string]string{"nobody": "the event store has no event of the aggregate", "set aside": "the event store has no event of the aggregate", "42": "_id is not a string"} {
		if f := found[id]; f.Repaired || !strings.Contains(f.RepairError, reason) {
			t.Errorf("%s is %+v, want an error with %q", id, f, reason)
		}
	}
}

// A repair waits for the grace period. If another generation was promoted meanwhile, the
// repair must not write a document of the old one into its collection.
func TestRepairEndsWithItsGeneration(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 1)
	w.of("000").document = nil
	w.still, w.replaced = true, w.time.Add(500*time.Millisecond)
	found, counts := w.verify(history.Params{Aggregate: "000", Repair: true, GraceMillis: 1000})
	if f := found["000"]; f.Kind != history.Missing || f.Repaired || !strings.Contains(f.RepairError, "no generation 1 any more") {
		t.Errorf("found %+v, counts %v", f, counts)
	}
	if w.of("000").document != nil {
		t.Error("the document was written")
	}
}

// If another generation was promoted meanwhile, the read models are those of that generation. That
// the old one lacks them is no finding.
func TestFindingsEndWithTheGeneration(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 1)
	w.of("000").document = nil
	errGone := errors.New("the projection has no generation 1 any more")
	w.still, w.current = true, func(context.Context, string, int64) error { return errGone }
	j := job.Job{ID: "j", Kind: job.Verify, Projection: w.projection.Name(), Generation: 1, Params: testkit.Raw(history.Params{Aggregate: "000", GraceMillis: 1000})}
	ranges, _, err := w.worker().Plan(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	var s saved
	if err := w.worker().Work(t.Context(), j, job.Range{Part: ranges[0]}, &s); !errors.Is(err, errGone) || len(w.put) > 0 {
		t.Errorf("error %v, findings %+v", err, w.put)
	}
}

// indexless is an event store that lacks the index of ranges.
type indexless struct{ *simulation }

func (indexless) Open(context.Context, eventstore.Position, eventstore.Position, bson.Timestamp) (eventstore.Cursor, error) {
	return nil, eventstore.ErrIndex
}

// Without the index, each range would fail again and again, and the command would wait for ever.
func TestVerificationFailsWithoutTheIndex(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 1)
	w.from = indexless{w}
	worker := w.worker()
	j := job.Job{ID: "j", Kind: job.Verify, Projection: "p", Generation: 1}
	ranges, _, err := worker.Plan(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	last := ranges[len(ranges)-1]
	err = worker.Work(t.Context(), j, job.Range{Part: last}, &saved{})
	if permanent := job.Permanent(nil); !errors.Is(err, eventstore.ErrIndex) || reflect.TypeOf(err) != reflect.TypeOf(permanent) {
		t.Errorf("the range ended with %T: %v", err, err)
	}
}

// A generation that gets every event can be promoted at any time, and may lack what a repair of
// the live one would show to readers.
func TestNothingIsRepairedBesideAGenerationThatCanReplaceIt(t *testing.T) {
	t.Parallel()
	for _, succeeded := range []bool{true, false} {
		w := newSimulation(t, definitions["keeps its documents"])
		for range 2 {
			w.append("1", "Set", "A", 1)
		}
		w.still = true
		worker := history.New(history.Options{
			Events: w, Store: readModels{w}, Repairer: w, Parking: w, Listing: w, Findings: w,
			Target: func(context.Context, string, int64) (engine.Target, error) {
				return engine.Target{Projection: w.projection, Collection: "things"}, nil
			},
			Succeeded: func(context.Context, string, int64) (bool, error) { return succeeded, nil },
		})
		worker.SetClock(func() time.Time { return w.time }, func(_ context.Context, d time.Duration) error {
			w.time = w.time.Add(d)
			return nil
		})
		j := job.Job{ID: "j", Kind: job.Verify, Projection: "p", Generation: 1, Params: testkit.Raw(history.Params{Aggregate: "1", Repair: true})}
		ranges, _, err := worker.Plan(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		if err := worker.Work(t.Context(), j, job.Range{Part: ranges[0]}, &saved{}); err != nil {
			t.Fatal(err)
		}
		if repaired := w.state("1").Watermark == 2; repaired == succeeded || len(w.put) != 1 || strings.Contains(w.put[0].RepairError, "after its promotion") != succeeded {
			t.Errorf("another generation can replace it: %v; repaired %v, findings %+v", succeeded, repaired, w.put)
		}
	}
}

// A document of a generation that nobody writes, for example after a restore, is not repaired.
// The finding and the repair name the remedy.
func TestDocumentOfANewerGenerationHasARemedy(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 1)
	if w.change("000", ofGeneration(2), history.OldGeneration) == "" {
		t.Fatal("there is no document")
	}
	found, _ := w.verify(history.Params{Repair: true, GraceMillis: 1000})
	f := found["000"]
	for _, text := range []string{f.Detail, f.RepairError} {
		if f.Kind != history.OldGeneration || !strings.Contains(text, `"projector projections rebuild" replaces the document`) {
			t.Errorf("%+v has no remedy in %q", f, text)
		}
	}
}

// TestLateAggregateIsAFindingOnlyAfterTheGracePeriod checks both ends of the grace period.
func TestLateAggregateIsAFindingOnlyAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]int{9 * time.Second: 0, 11 * time.Second: 1} {
		w := historyOf(t, 3)
		w.append("001", "Set", "A", 4)
		w.still = true
		start := w.time
		w.happens = func() {
			if w.time.Sub(start) >= after {
				w.settle()
			}
		}
		found, _ := w.verify(history.Params{GraceMillis: 10_000})
		if len(found) != want || want > 0 && found["001"].Kind != history.Behind {
			t.Errorf("caught up after %v: found %v", after, found)
		}
	}
}

// TestVerificationContinuesFromTheSavedPosition stops at every save, and checks that the
// counts and findings of all parts are those of one uninterrupted pass.
func TestVerificationContinuesFromTheSavedPosition(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 200)
	for i := range 20 {
		w.change(fmt.Sprintf("%03d", i*9), func(d bson.D) bson.D { return set(d, "n", "wrong") }, "")
	}
	w.of("zzz").document = documentOf("zzz", 1, 1, bson.Raw{5, 0, 0, 0, 0})
	_, want := w.verifyStill()
	w.still = true
	// The clock advances by the save interval, so every save is due.
	w.happens = func() { w.time = w.time.Add(time.Second) }
	worker := w.worker()
	j := job.Job{ID: "j", Kind: job.Verify}
	ranges, total, err := worker.Plan(t.Context(), j)
	if err != nil || total != 600 {
		t.Fatalf("planned %d events, %v", total, err)
	}
	got, stops := map[string]int64{}, 0
	for _, bounds := range ranges {
		r := job.Range{Part: bounds}
		for attempt := range 4 {
			s := &stopping{last: attempt == 3}
			err := worker.Work(t.Context(), j, r, s)
			if err == nil {
				r.Counts = s.counts
				break
			}
			stops++
			r.Position, r.Counts = s.position, s.counts
		}
		for name, n := range r.Counts {
			got[name] += n
		}
	}
	if !maps.Equal(got, want) || want["different"] != 20 || want["extra"] != 1 || want["events"] != 600 {
		t.Errorf("counts %v after %d stops, want %v", got, stops, want)
	}
}

// An aggregate can have a document and a side watermark, for example if its projection deletes
// documents.
func TestAggregateWithoutEventsCountsOnce(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 3)
	for id, both := range map[string]bool{"a document": false, "both": true} {
		w.of(id).document = documentOf(id, 3, 1, bson.Raw{5, 0, 0, 0, 0})
		w.of(id).side, w.of(id).hasSide = 3, both
	}
	w.of("a watermark").side, w.of("a watermark").hasSide = 3, true
	found, counts := w.verifyStill()
	if len(found) != 3 || len(w.put) != 3 || counts[string(history.Extra)] != 3 || history.Wrong(counts) != 3 {
		t.Errorf("%d aggregates in the findings %+v, counts %v", len(found), w.put, counts)
	}
}

// A process dies after the last save of a range and before the range is finished. Its successor
// does the range again.
func TestRangeThatIsDoneTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	wrong := historyOf(t, 3)
	wrong.change("001", func(d bson.D) bson.D { return set(d, "n", "wrong") }, "")
	odd := newSimulation(t, definitions["keeps its documents"])
	odd.odd = []string{"42"}
	for name, test := range map[string]struct {
		w      *simulation
		params history.Params
		want   map[string]int64
	}{
		"all aggregates":    {wrong, history.Params{}, map[string]int64{history.CountEvents: 9, history.CountAggregates: 3, string(history.Different): 1}},
		"one aggregate":     {wrong, history.Params{Aggregate: "001"}, map[string]int64{history.CountAggregates: 1, string(history.Different): 1}},
		"another aggregate": {wrong, history.Params{Aggregate: "nobody"}, map[string]int64{history.CountAggregates: 0, history.CountUnknown: 1}},
		"an odd document":   {odd, history.Params{}, map[string]int64{string(history.Extra): 1}},
	} {
		params, err := bson.Marshal(test.params)
		if err != nil {
			t.Fatal(err)
		}
		j, worker := job.Job{ID: "j", Kind: job.Verify, Params: params}, test.w.worker()
		ranges, _, err := worker.Plan(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for _, bounds := range ranges {
			r := job.Range{Part: bounds}
			for range 2 {
				var s saved
				if err := worker.Work(t.Context(), j, r, &s); err != nil {
					t.Fatal(err)
				}
				r.Position, r.Counts = s.position, s.counts
			}
			for name, n := range r.Counts {
				got[name] += n
			}
		}
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: counts %v, want %v", name, got, test.want)
		}
	}
}

// A process dies after a repair and before its next save. Its successor finds nothing wrong.
func TestFindingsOfADeadProcessCount(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 3)
	w.change("001", func(d bson.D) bson.D { return set(d, "n", "wrong") }, "")
	w.still = true
	params, err := bson.Marshal(history.Params{Repair: true})
	if err != nil {
		t.Fatal(err)
	}
	j, worker := job.Job{ID: "j", Kind: job.Verify, Params: params}, w.worker()
	ranges, _, err := worker.Plan(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, bounds := range ranges {
		if err := worker.Work(t.Context(), j, job.Range{Part: bounds}, &stopping{}); err == nil {
			t.Error("the work did not stop")
		}
		var s saved
		if err := worker.Work(t.Context(), j, job.Range{Part: bounds}, &s); err != nil {
			t.Fatal(err)
		}
		for name, n := range s.counts {
			counts[name] += n
		}
	}
	store := history.NewFindingStore(history.Server.Database(t))
	for _, f := range append(w.put, history.Finding{ID: "j/late", Job: "j", Kind: history.Behind, Undelivered: true}) {
		if err := store.Put(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.Recount(t.Context(), "j", counts)
	want := map[string]int64{history.CountEvents: 9, history.CountAggregates: 3, string(history.Different): 1, history.CountRepaired: 1, string(history.Behind): 1, history.CountUndelivered: 1}
	if err != nil || !maps.Equal(got, want) || history.Wrong(counts) != 0 {
		t.Errorf("counts %v of the ranges, and %v of the findings, want %v; %v", counts, got, want, err)
	}
	counts[string(history.Different)] = 7
	if got, err := store.Recount(t.Context(), "another", counts); err != nil || history.Wrong(got) != 0 || got[history.CountEvents] != 9 {
		t.Errorf("counts %v of a job without findings, %v", got, err)
	}
}

// stopping stops the work at each save, until the last attempt.
type stopping struct {
	saved
	last bool
}

func (s *stopping) Save(ctx context.Context, position bson.Raw, counts map[string]int64) error {
	_ = s.saved.Save(ctx, position, counts)
	if !s.last {
		return errors.New("stopped")
	}
	return nil
}

// TestEveryReadEventCountsForTheRate checks that the rate limit covers the verification of
// one aggregate, and the events that are read again to confirm a finding and to repair.
func TestEveryReadEventCountsForTheRate(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 10)
	waited := 0
	w.limit = func(_ context.Context, events int) (func(), error) {
		waited += events
		return func() {}, nil
	}
	w.still = true
	if w.verify(history.Params{Aggregate: "007"}); waited != 3 {
		t.Errorf("waited for %d events of one aggregate, want 3", waited)
	}
	w.change("007", func(d bson.D) bson.D { return set(d, "n", int64(1)) }, "")
	waited = 0
	if w.verify(history.Params{GraceMillis: 1000}); waited != 30+3 {
		t.Errorf("waited for %d events of all aggregates and of a finding, want 33", waited)
	}
	// A repair looks at the aggregate before and after it folds the events.
	waited = 0
	if found, _ := w.verify(history.Params{GraceMillis: 1000, Repair: true}); !found["007"].Repaired || waited != 33+3*3 {
		t.Errorf("waited for %d events with a repair, want 42; found %+v", waited, found)
	}
	// An aggregate that is behind is looked at twice, and then repaired.
	w.append("007", "Add", "A", 1)
	waited = 0
	if found, _ := w.verify(history.Params{Aggregate: "007", Repair: true, GraceMillis: 1}); !found["007"].Repaired || waited < 2*4+3*4-3 {
		t.Errorf("waited for %d events of an aggregate that was behind, want at least 17; found %+v", waited, found)
	}
	stop := errors.New("stop")
	w.limit = func(context.Context, int) (func(), error) { return nil, stop }
	j := job.Job{ID: "j", Kind: job.Verify, Projection: w.projection.Name(), Generation: 1, Params: testkit.Raw(history.Params{Aggregate: "007"})}
	worker := w.worker()
	ranges, _, err := worker.Plan(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Work(t.Context(), j, job.Range{Part: ranges[0]}, &saved{}); !errors.Is(err, stop) {
		t.Errorf("the error of the limit is lost: %v", err)
	}
}

// TestBatchIsJudgedBetweenBeginAndEnd checks that a verification takes its turn for the work on
// a batch, so that it rests for live events in proportion to that work.
func TestBatchIsJudgedBetweenBeginAndEnd(t *testing.T) {
	t.Parallel()
	w := historyOf(t, 10)
	w.still = true
	begun, ended, loaded := 0, 0, 0
	w.limit = func(context.Context, int) (func(), error) {
		if begun != ended {
			t.Errorf("turn %d began before the last one ended", begun+1)
		}
		begun++
		return sync.OnceFunc(func() { ended++ }), nil
	}
	w.loads = func() {
		if loaded++; begun != ended+1 {
			t.Error("read models were loaded outside of a turn")
		}
	}
	if w.verify(history.Params{GraceMillis: 1000}); loaded == 0 || begun == 0 || begun != ended {
		t.Errorf("%d turns began and %d ended; read models were loaded %d times", begun, ended, loaded)
	}
}

// TestLongHistoryIsReadPageByPage verifies an aggregate whose events do not fit into a
// batch, between two others.
func TestLongHistoryIsReadPageByPage(t *testing.T) {
	t.Parallel()
	w := newSimulation(t, definitions["keeps its documents"])
	w.page = 512
	for id, events := range map[string]int{"a": 3, "b": 4200, "c": 3} {
		for range events {
			w.append(id, "Set", "A", events)
		}
	}
	w.settle()
	found, counts := w.verifyStill()
	if len(found) > 0 || counts[history.CountAggregates] != 3 {
		t.Errorf("found %v, counts %v", found, counts)
	}
	w.change("b", func(d bson.D) bson.D { return set(d, "n", int64(1)) }, "")
	w.change("c", func(d bson.D) bson.D { return set(d, "n", int64(1)) }, "")
	found, _ = w.verifyStill()
	if len(found) != 2 || found["b"].Kind != history.Different || found["b"].Head != 4200 || found["c"].Kind != history.Different {
		t.Errorf("found %v", found)
	}
}
