package history

import (
	"strings"
	"testing"

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
		"they do not begin at 1":      {later, 0, false, "lacks event 1", 1},
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
					if err := workers.Refold(t.Context(), w.target(), "a"); err != nil {
						t.Error(err)
					}
				} else if found, _ := w.verify(t, workers, Params{Aggregate: "a", Repair: true}); found["a"].Repaired != (c.refusal == "") || !strings.Contains(found["a"].RepairError, c.refusal) {
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

// TestErasureParksAtAMaskedEventThatCannotBeFolded masks the first event of a read model, and of one
// that was deleted. The watermark goes back to the event before it, so that the aggregate
// waits there, and the marker has the last event.
func TestErasureParksAtAMaskedEventThatCannotBeFolded(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"Add", "Delete"} {
		w := newYAML(t, deletingYAML, typed("a", "Set", "Add", last)...)
		if _, err := w.events.UpdateOne(t.Context(), one("eventId", int64(1)), one("$set", one("eventType", "Bad"))); err != nil {
			t.Fatal(err)
		}
		workers := w.verifiers()
		if err := workers.Refold(t.Context(), w.target(), "a"); err != nil {
			t.Fatal(err)
		}
		state, err := workers.load(t.Context(), w.target().Unit("a"))
		if m := w.parked["a"]; err != nil || state.Watermark != 0 || state.Document != nil || m.EventID != 1 || m.Head != 3 {
			t.Errorf("%s: watermark %d, document %s, parked %+v, %v", last, state.Watermark, state.Document, m, err)
		}
	}
}
