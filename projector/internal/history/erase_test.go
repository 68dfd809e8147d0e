package history

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// TestErasedAggregateCanHaveEventsAgain stores events of an aggregate whose events were deleted
// before it was erased. A repair and another erasure make them count, as if the aggregate was new.
func TestErasedAggregateCanHaveEventsAgain(t *testing.T) {
	t.Parallel()
	later := typed("a", "Set", "Set")
	later[0].id, later[1].id = 9, 10
	for name, c := range map[string]struct {
		events []stored
		// watermark and document are those of the read model afterwards. refusal is in the error of a
		// repair, and parkedAt is the event at which the aggregate is parked.
		watermark int64
		document  bool
		refusal   string
		parkedAt  int64
	}{
		"they give a document":        {typed("a", "Set", "Add"), 2, true, "", 0},
		"they give no document":       {typed("a", "Set", "Delete"), 2, false, "", 0},
		"none concerns it":            {customer("a", 2), 0, false, "", 0},
		"the first cannot be applied": {typed("a", "Bad", "Set"), 0, false, "event 1 cannot be applied", 1},
		"another cannot be applied":   {typed("a", "Set", "Bad"), 1, true, "", 2},
		"they do not begin at 1":      {later, 0, false, "lacks event 1", 0},
	} {
		for _, remedy := range []string{"repair", "erase"} {
			t.Run(name+", "+remedy, func(t *testing.T) {
				t.Parallel()
				w := newYAML(t, deletingYAML)
				w.hasNone(t, "a", model.Erased)
				for _, e := range c.events {
					w.store(t, e)
				}
				workers := w.verifiers()
				if found, _ := w.verify(t, workers, Params{}); found["a"].Kind != Behind || !strings.Contains(found["a"].Detail, "has events again") {
					t.Errorf("found %+v before", found)
				}
				if remedy == "erase" {
					if err := workers.Refold(t.Context(), w.target(), "a", 0); err != nil {
						t.Error(err)
					}
				} else if found, _ := w.verify(t, workers, Params{Repair: true}); found["a"].Repaired != (c.refusal == "") || !strings.Contains(found["a"].RepairError, c.refusal) {
					t.Errorf("repaired %+v, want the error %q", found["a"], c.refusal)
				}
				state, err := workers.load(t.Context(), w.target().Unit("a"))
				if err != nil || state.Watermark != c.watermark || (state.Document != nil) != c.document || w.parked["a"].EventID != c.parkedAt {
					t.Errorf("watermark %d, document %s, parked at %d, %v; want %+v", state.Watermark, state.Document, w.parked["a"].EventID, err, c)
				}
			})
		}
	}
}

// TestSweepLeavesErasedAggregates lets a sweep with content find an erased aggregate that has events
// again: a message from before the erasure could follow them.
func TestSweepLeavesErasedAggregates(t *testing.T) {
	t.Parallel()
	w := newYAML(t, deletingYAML)
	w.hasNone(t, "a", model.Erased)
	w.store(t, typed("a", "Set")[0])
	if found, _ := w.compare(t, w.verifiers(), job.Reconcile, Params{Repair: true}); found["a"].Kind != Behind || found["a"].RepairError != errErased.Error() {
		t.Errorf("found %+v", found)
	}
}

// TestErasureFoldsOnlyAcrossEventsThatTheReadModelHad deletes events with and above the watermark.
func TestErasureFoldsOnlyAcrossEventsThatTheReadModelHad(t *testing.T) {
	t.Parallel()
	w := newYAML(t, deletingYAML, typed("a", "Set", "Add", "Add")...)
	later := typed("a", "Add")[0]
	later.id = 9
	w.store(t, later)
	w.remove(t, "events", one("eventId", int64(2)))
	if err := w.verifiers().Refold(t.Context(), w.target(), "a", 0); err != nil {
		t.Fatal(err)
	}
	state, err := w.verifiers().load(t.Context(), w.target().Unit("a"))
	if n, _ := state.Document.Lookup("n").AsInt64OK(); err != nil || state.Watermark != 3 || n != 4 {
		t.Errorf("watermark %d, document %s, %v; want 1 + 3 as of event 3", state.Watermark, state.Document, err)
	}
}
