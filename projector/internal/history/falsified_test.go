package history_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// falsifications change the stored data of an aggregate and return the kind of the
// expected finding; "" if the change does not apply to the aggregate.
var falsifications = map[string]func(w *simulation, id string) history.Kind{
	"a value": func(w *simulation, id string) history.Kind {
		return w.change(id, func(d bson.D) bson.D { return set(d, "n", int64(999)) }, history.Different)
	},
	"the type of a number": func(w *simulation, id string) history.Kind {
		kind := history.Kind("")
		return cmpKind(w.change(id, func(d bson.D) bson.D {
			for i, e := range d {
				if n, ok := e.Value.(int64); ok && e.Key == "n" {
					d[i].Value, kind = int32(n), history.TypeOnly
				}
			}
			return d
		}, history.TypeOnly), kind)
	},
	"an additional field": func(w *simulation, id string) history.Kind {
		return w.change(id, func(d bson.D) bson.D { return append(d, bson.E{Key: "more", Value: nil}) }, history.Different)
	},
	"a missing field": func(w *simulation, id string) history.Kind {
		return w.change(id, func(d bson.D) bson.D {
			return slices.DeleteFunc(d, func(e bson.E) bool { return e.Key == "n" })
		}, history.Different)
	},
	"no watermark": func(w *simulation, id string) history.Kind {
		return w.change(id, func(d bson.D) bson.D {
			return slices.DeleteFunc(d, func(e bson.E) bool { return e.Key == "lastEventId" })
		}, history.Different)
	},
	"a watermark beyond the head": func(w *simulation, id string) history.Kind {
		return w.change(id, func(d bson.D) bson.D { return set(d, "lastEventId", int64(1000)) }, history.Extra)
	},
	"another generation": func(w *simulation, id string) history.Kind {
		return w.change(id, ofGeneration(2), history.OldGeneration)
	},
	"a document that was set aside": func(w *simulation, id string) history.Kind {
		if w.of(id).side > 0 {
			return "" // The side watermark says that there is no document.
		}
		return w.change(id, ofGeneration(0), history.OldGeneration)
	},
	"no document": func(w *simulation, id string) history.Kind {
		s := w.of(id)
		if s.document == nil {
			return ""
		}
		s.document = nil
		return history.Missing
	},
	"a document that events have deleted": func(w *simulation, id string) history.Kind {
		s := w.of(id)
		if s.document != nil || s.side == 0 {
			return ""
		}
		s.document = documentOf(id, s.side, 1, bson.Raw{5, 0, 0, 0, 0})
		return history.Different
	},
	"a document of no aggregate": func(w *simulation, id string) history.Kind {
		if len(w.store[id]) > 0 {
			return ""
		}
		w.of(id).document = documentOf(id, 3, 1, bson.Raw{5, 0, 0, 0, 0})
		return history.Extra
	},
	"a watermark of no aggregate": func(w *simulation, id string) history.Kind {
		if len(w.store[id]) > 0 {
			return ""
		}
		w.of(id).side, w.of(id).hasSide = 3, true
		return history.Extra
	},
	"a side watermark that is too high": func(w *simulation, id string) history.Kind {
		s := w.of(id)
		if s.document != nil || s.side == 0 {
			return ""
		}
		s.side = 1000
		return history.Extra
	},
	"an event missing in the event store": func(w *simulation, id string) history.Kind {
		if len(w.store[id]) < 2 || w.of(id).document == nil {
			return ""
		}
		w.store[id] = w.store[id][1:]
		return history.Extra
	},
	"an event not projected": func(w *simulation, id string) history.Kind {
		if len(w.store[id]) == 0 || w.of(id).document == nil {
			return ""
		}
		w.append(id, "Set", "A", 4)
		return history.Behind
	},
}

// change changes the document of an aggregate, if it has one with the field n.
func (w *simulation) change(id string, do func(bson.D) bson.D, found history.Kind) history.Kind {
	s := w.of(id)
	if s.document == nil {
		return ""
	}
	var d bson.D
	if err := bson.Unmarshal(s.document, &d); err != nil {
		w.tb.Fatal(err)
	}
	if !slices.ContainsFunc(d, func(e bson.E) bool { return e.Key == "n" }) {
		return ""
	}
	s.document = testkit.Raw(do(d))
	return found
}

func set(d bson.D, field string, value any) bson.D {
	for i := range d {
		if d[i].Key == field {
			d[i].Value = value
			return d
		}
	}
	return append(d, bson.E{Key: field, Value: value})
}

// cmpKind returns the first kind, or the second if the first is empty.
func cmpKind(first, second history.Kind) history.Kind {
	if first == "" {
		return ""
	}
	return second
}

// falsify falsifies some aggregates at random and returns the expected findings.
func (w *simulation) falsify(rt *rapid.T, names []string) map[string]history.Kind {
	want := map[string]history.Kind{}
	for range rapid.IntRange(0, 4).Draw(rt, "falsified") {
		id := fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "victim"))
		if _, ok := want[id]; ok {
			continue
		}
		if kind := falsifications[rapid.SampledFrom(names).Draw(rt, "falsification")](w, id); kind != "" {
			want[id] = kind
		}
	}
	return want
}

// TestVerificationFindsExactlyTheFalsifiedReadModels falsifies read models in every listed
// way.
func TestVerificationFindsExactlyTheFalsifiedReadModels(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(falsifications))
	eachDefinition(t, func(t *testing.T, definition string) {
		t.Helper()
		rapid.Check(t, func(rt *rapid.T) {
			w := newSimulation(t, definition)
			live := w.live(rt, map[string]bool{})
			for range rapid.IntRange(0, 60).Draw(rt, "before") {
				live()
			}
			w.settle()
			want := w.falsify(rt, names)
			// Live writers no longer update read models.
			w.happens = func() {}
			for id := range want {
				w.parked[id] = model.Position{}
			}
			found, counts := w.verifyStill()
			got := map[string]history.Kind{}
			for id, f := range found {
				got[id] = f.Kind
			}
			if !maps.Equal(got, want) || history.Wrong(counts) != int64(len(want)) {
				rt.Fatalf("found %v, want %v; counts %v", got, want, counts)
			}
		})
	})
}

// verifyStill verifies while no live writer works.
func (w *simulation) verifyStill() (map[string]history.Finding, map[string]int64) {
	w.tb.Helper()
	w.still = true
	defer func() { w.still = false }()
	return w.verify(history.Params{GraceMillis: 1000})
}

// TestRepairCorrectsEveryReadModelUnderLiveWrites repairs falsified read models while live
// writers load them, fold newer events and write. After every write of the repair, and at
// the end, the read model equals the fold.
func TestRepairCorrectsEveryReadModelUnderLiveWrites(t *testing.T) {
	t.Parallel()
	all := []string{"a value", "the type of a number", "an additional field", "a missing field", "a document that was set aside", "a document that events have deleted", "no document"}
	eachDefinition(t, func(t *testing.T, definition string) {
		t.Helper()
		rapid.Check(t, func(rt *rapid.T) {
			w := newSimulation(t, definition)
			live := w.live(rt, map[string]bool{})
			for range rapid.IntRange(0, 60).Draw(rt, "before") {
				live()
			}
			w.settle()
			want := w.falsify(rt, all)
			w.happens = live
			found, _ := w.verify(history.Params{Repair: true, GraceMillis: 1000})
			contended := false
			for id, f := range found {
				if !f.Repaired && !strings.Contains(f.RepairError, "other processes kept changing") {
					rt.Errorf("%s is not repaired: %+v", id, f)
				}
				contended = contended || !f.Repaired
				if want[id] == "" {
					rt.Errorf("found %s of %s, which was right: %+v", f.Kind, id, f)
				}
			}
			w.happens = func() {}
			w.settle()
			if contended {
				// Writers were faster ten times in a row, so the error of the repair asks
				// to verify again.
				w.verify(history.Params{Repair: true, GraceMillis: 1000})
			}
			if found, counts := w.verifyStill(); len(found) > 0 {
				rt.Errorf("after the repair: %v, %v", found, counts)
			}
			if len(w.wrong) > 0 {
				rt.Errorf("a write of the repair left documents wrong: %v", w.wrong)
			}
		})
	})
}

// ofGeneration gives a document another generation.
func ofGeneration(generation int64) func(bson.D) bson.D {
	return func(d bson.D) bson.D {
		return append(slices.DeleteFunc(d, func(e bson.E) bool { return e.Key == "lastGeneration" }), bson.E{Key: "lastGeneration", Value: generation})
	}
}
