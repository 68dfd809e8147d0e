package memory_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/projector/internal/memory"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// TestStoresBehaveLikeTheReadModelsOfAServer checks that any sequence of writes has the
// same results here as in package readmodel on a server, and leaves the same states.
func TestStoresBehaveLikeTheReadModelsOfAServer(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	writer, loader := readmodel.NewWriter(db, readmodel.WriterOptions{}), readmodel.NewLoader(db, readmodel.LoaderOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { _ = writer.Run(ctx) })
	loops.Go(func() { _ = loader.Run(ctx) })
	t.Cleanup(func() { cancel(); loops.Wait() })

	var runs atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		run := runs.Add(1)
		stores := memory.New()
		units := unitsOf(run)
		for step := range rapid.IntRange(4, 16).Draw(rt, "steps") {
			w := drawWrite(rt, stores, units)
			want, err := writer.Write(ctx, []model.Write{w})
			if err != nil {
				rt.Fatal(err)
			}
			got, err := stores.Write(ctx, []model.Write{w})
			if err != nil {
				rt.Fatal(err)
			}
			if got[0].Status != want[0].Status {
				rt.Fatalf("step %d: %+v has status %d, and on a server %d (%v)", step, w, got[0].Status, want[0].Status, want[0].Err)
			}
			compare(ctx, rt, stores, loader, units)
		}
	})
}

// unitsOf returns units of two aggregates in two generations of a projection that deletes
// and of one that does not. Both generations share a collection.
func unitsOf(run int64) []model.Unit {
	var units []model.Unit
	for _, deletes := range []bool{true, false} {
		for _, aggregate := range []string{"a", "b"} {
			for generation := range int64(2) {
				units = append(units, model.Unit{
					Projection: fmt.Sprintf("p%d-%t", run, deletes), Collection: fmt.Sprintf("things%d-%t", run%8, deletes),
					AggregateID: fmt.Sprintf("%s%d", aggregate, run), Generation: generation + 1, Deletes: deletes,
				})
			}
		}
	}
	return units
}

// drawWrite draws a write, which often starts from the stored state.
func drawWrite(rt *rapid.T, stores *memory.Stores, units []model.Unit) model.Write {
	w := model.Write{Unit: rapid.SampledFrom(units).Draw(rt, "unit")}
	states, err := stores.Load(context.Background(), []model.Unit{w.Unit})
	if err != nil {
		rt.Fatal(err)
	}
	w.From, w.Foreign = states[0].Watermark, states[0].Foreign
	kinds := []model.Kind{model.MoveWatermark, model.Create, model.Update}
	if w.Deletes {
		kinds = append(kinds, model.Delete, model.Erase)
	}
	switch {
	case states[0].Document != nil:
		kinds = append(kinds, model.Update, model.Update)
	default:
		kinds = append(kinds, model.Create, model.Create)
	}
	if w.Foreign != nil && rapid.Bool().Draw(rt, "forget the foreign document") {
		w.Foreign = nil
	}
	if rapid.IntRange(0, 2).Draw(rt, "stale") == 0 {
		w.From = rapid.Int64Range(0, 4).Draw(rt, "from")
		if rapid.Bool().Draw(rt, "another foreign document") {
			w.Foreign = &model.Foreign{Generation: 1, Watermark: rapid.Int64Range(0, 4).Draw(rt, "foreign")}
		}
	}
	w.Kind = rapid.SampledFrom(kinds).Draw(rt, "kind")
	if w.Kind == model.Erase && rapid.Bool().Draw(rt, "erase an early part") {
		w.From = 0
	}
	w.To = w.From + rapid.Int64Range(1, 3).Draw(rt, "by")
	switch w.Kind {
	case model.Create:
		w.Document = bsontest.Raw(bson.D{{Key: "a", Value: w.To}, {Key: "list", Value: bson.A{w.To}}})
	case model.Update:
		w.Update = rapid.SampledFrom([]bson.Raw{
			nil,
			bsontest.Raw(bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: w.To}, {Key: "b", Value: "text"}}}}),
			bsontest.Raw(bson.D{{Key: "$unset", Value: bson.D{{Key: "a", Value: ""}}}, {Key: "$set", Value: bson.D{{Key: "c", Value: bson.D{{Key: "d", Value: 1.5}}}}}}),
			bsontest.Raw(bson.D{{Key: "$push", Value: bson.D{{Key: "list", Value: bson.D{{Key: "$each", Value: bson.A{w.To, nil}}}}}}}),
			bsontest.Raw(bson.D{{Key: "$push", Value: bson.D{{Key: "more", Value: bson.D{{Key: "$each", Value: bson.A{"x"}}}}}}}),
		}).Draw(rt, "update")
	}
	return w
}

// compare expects equal states of all units in both stores.
func compare(ctx context.Context, rt *rapid.T, stores *memory.Stores, loader *readmodel.Loader, units []model.Unit) {
	want, err := loader.Load(ctx, units)
	if err != nil {
		rt.Fatal(err)
	}
	defer loader.Release(want)
	got, err := stores.Load(ctx, units)
	if err != nil {
		rt.Fatal(err)
	}
	for i, u := range units {
		g, w := got[i], want[i]
		same := g.Watermark == w.Watermark && g.Err == nil && w.Err == nil &&
			errors.Is(g.Unavailable, model.ErrSuperseded) == errors.Is(w.Unavailable, model.ErrSuperseded) && (g.Unavailable == nil) == (w.Unavailable == nil) &&
			(g.Foreign == nil) == (w.Foreign == nil) && (g.Foreign == nil || g.Foreign.Generation == w.Foreign.Generation && g.Foreign.Watermark == w.Foreign.Watermark)
		if !same || !maps.Equal(contentOf(rt, g.Document), contentOf(rt, w.Document)) {
			rt.Fatalf("%+v is %+v %s, and on a server %+v %s", u, g, g.Document, w, w.Document)
		}
	}
}

// contentOf returns the fields of a document without the time of its last change.
func contentOf(rt *rapid.T, document bson.Raw) map[string]string {
	content := map[string]string{}
	if document == nil {
		return content
	}
	elements, err := document.Elements()
	if err != nil {
		rt.Fatal(err)
	}
	for _, e := range elements {
		if e.Key() != "lastUpdatedAt" {
			content[e.Key()] = e.Value().DebugString()
		}
	}
	return content
}

// TestCrashKeepsTheWrite checks that a crash after a write keeps exactly that write, and
// that every call fails until the restart.
func TestCrashKeepsTheWrite(t *testing.T) {
	t.Parallel()
	stores := memory.New()
	stores.CrashAfterWrites()
	one := model.Unit{Projection: "p", Collection: "things", AggregateID: "one"}
	two := one
	two.AggregateID = "two"
	writes := []model.Write{{Unit: one, Kind: model.MoveWatermark, To: 1}, {Unit: two, Kind: model.MoveWatermark, To: 1}}
	for _, done := range []int{1, 2} {
		if _, err := stores.Write(t.Context(), writes); !errors.Is(err, memory.ErrCrashed) || !stores.Crashed() {
			t.Fatalf("the write ends with %v", err)
		}
		if _, err := stores.Load(t.Context(), []model.Unit{one}); !errors.Is(err, memory.ErrCrashed) {
			t.Errorf("a load of a process that has ended: %v", err)
		}
		stores.Restart()
		states, err := stores.Load(t.Context(), []model.Unit{one, two})
		if err != nil {
			t.Fatal(err)
		}
		written := 0
		for _, s := range states {
			written += int(s.Watermark)
		}
		if written != done {
			t.Errorf("%d writes are there, want %d", written, done)
		}
	}
	// The writes change nothing now, so there is no crash.
	if _, err := stores.Write(t.Context(), writes); err != nil {
		t.Error(err)
	}
	if err := stores.Park(t.Context(), []model.Marker{{Unit: one, EventID: 2, Head: 2}}); !errors.Is(err, memory.ErrCrashed) {
		t.Errorf("parking ends with %v", err)
	}
	stores.Restart()
	if err := stores.Park(t.Context(), []model.Marker{{Unit: one, EventID: 2, Head: 2}}); err != nil {
		t.Errorf("parking again ends with %v", err)
	}
}

// TestParkingFollowsTheParkedList checks which marker replaces which.
func TestParkingFollowsTheParkedList(t *testing.T) {
	t.Parallel()
	stores := memory.New()
	u := model.Unit{Projection: "p", Collection: "things", AggregateID: "one"}
	for _, step := range []struct {
		park      model.Marker
		event     int64
		resumes   bool
		head      int64
		condition string
	}{
		{model.Marker{EventID: 3, Head: 4}, 3, false, 4, "the first"},
		{model.Marker{EventID: 3, Head: 6}, 3, false, 6, "the same event"},
		{model.Marker{EventID: 5, Head: 5}, 5, false, 6, "another event"},
		{model.Marker{EventID: 6, Head: 6, Resumes: true}, 6, true, 6, "one that resumes"},
		{model.Marker{EventID: 7, Head: 7, Resumes: true}, 6, true, 7, "another that resumes"},
		{model.Marker{EventID: 7, Head: 7}, 7, false, 7, "one that does not"},
	} {
		step.park.Unit = u
		if err := stores.Park(t.Context(), []model.Marker{step.park}); err != nil {
			t.Fatal(err)
		}
		m := stores.Markers()
		if len(m) != 1 || m[0].EventID != step.event || m[0].Resumes != step.resumes || m[0].Head != step.head {
			t.Errorf("after %s: %+v", step.condition, m)
		}
	}
	if err := stores.Advance(t.Context(), []model.Head{{Unit: u, EventID: 9}}); err != nil || stores.Markers()[0].Head != 9 {
		t.Errorf("advanced to %d, %v", stores.Markers()[0].Head, err)
	}
	other := u
	other.AggregateID = "two"
	if err := stores.Advance(t.Context(), []model.Head{{Unit: other, EventID: 9}}); !errors.Is(err, memory.ErrNotParked) {
		t.Errorf("advance of what is not parked: %v", err)
	}
	if positions, err := stores.Parked(t.Context(), []model.Unit{other, u}); err != nil || !slices.Equal(positions, []model.Position{{}, {EventID: 7}}) {
		t.Errorf("positions %v, %v", positions, err)
	}
}
