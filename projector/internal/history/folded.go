package history

import (
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// folded is an aggregate whose events are folded from nothing, or that a sweep has found behind.
type folded struct {
	unit   model.Unit
	raw    bson.RawValue
	target *engine.Target
	fold   *projection.Accumulator
	// until is the last event that is folded. first and last are the lowest and the highest
	// event id.
	until, first, last int64
	// hole is the first missing event. The events after it are not folded. first, last, hole and
	// parkedAt are NoEvent of the unit if there is no such event.
	hole int64
	// failed says that the event after the folded ones cannot be folded.
	failed    bool
	concerned bool
	// place is the place of the aggregate in a page of a sweep, and parkedAt the event at which the
	// sweep has found it parked.
	place    int
	parkedAt int64
	// watermark and foreign are set by loadWatermarks.
	watermark int64
	foreign   *model.Foreign
}

func newFolded(target *engine.Target, a *aggregate) *folded {
	h := &folded{unit: target.Unit(a.id), raw: a.raw, target: target, fold: target.Projection.Begin(nil), until: math.MaxInt64}
	h.noEvents()
	return h
}

// noEvents says that there is none of the events yet.
func (h *folded) noEvents() {
	none := h.unit.NoEvent()
	h.first, h.last, h.hole, h.parkedAt, h.watermark = none, none, none, none, none
}

// add folds the next events. It reuses the slice.
func (h *folded) add(events []*event.Event) {
	leading := events[:0]
	for _, ev := range events {
		if ev.EventID > h.until {
			break
		}
		h.concerned = h.concerned || h.target.Projection.Concerns(ev)
		if h.last == h.unit.NoEvent() {
			h.last = h.target.Projection.BeginsAt(ev, h.unit.FirstEvent()) - 1
		}
		if ev.EventID <= h.last {
			continue
		}
		if h.hole == h.unit.NoEvent() && ev.EventID != h.last+1 {
			h.hole = h.last + 1
		}
		if h.first == h.unit.NoEvent() {
			h.first = ev.EventID
		}
		h.last = ev.EventID
		if h.hole == h.unit.NoEvent() {
			leading = append(leading, ev)
		}
	}
	if len(leading) > 0 && !h.failed {
		h.failed = h.fold.Add(leading) != nil
	}
}

// complete reports whether all of its events are folded.
func (h *folded) complete() bool { return h.hole == h.unit.NoEvent() && !h.failed }
