package history

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// history is one aggregate of a range, while its events are read and afterwards.
type folded struct {
	unit model.Unit
	raw  bson.RawValue
	fold *projection.Accumulator
	// waiting are the events of the present page that are not folded yet.
	waiting []*event.Event
	// first and last are the lowest and the highest event id, events is the number of valid
	// events, bytes their size.
	first, last int64
	events      int64
	bytes       int
	// hole is the first missing event; 0 if there is none. The events
	// after it are not folded.
	hole int64
	// failed says that the event after the folded ones cannot be folded.
	failed    bool
	concerned bool
	// parkedAt is the event at which a sweep has found the aggregate parked; 0 for none.
	parkedAt int64
	// watermark and foreign are set by loadWatermarks.
	watermark int64
	foreign   *model.Foreign
}

func newFolded(target *engine.Target, ev *event.Event) *folded {
	raw := ev.RawAggregateID
	return &folded{
		unit: target.Unit(ev.AggregateID),
		raw:  bson.RawValue{Type: raw.Type, Value: bytes.Clone(raw.Value)},
		fold: target.Projection.Begin(nil, 0),
	}
}

// add adds the next event.
func (h *folded) add(ev *event.Event, target *engine.Target) {
	h.events++
	h.bytes += len(ev.Document)
	h.concerned = h.concerned || target.Projection.Concerns(ev)
	if ev.EventID <= h.last {
		return
	}
	if h.hole == 0 && ev.EventID != h.last+1 {
		h.hole = h.last + 1
	}
	if h.first == 0 {
		h.first = ev.EventID
	}
	h.last = ev.EventID
	if h.hole == 0 && !h.failed {
		h.waiting = append(h.waiting, ev)
	}
}

// foldWaiting folds the events of the page and drops them.
func (h *folded) foldWaiting() {
	if len(h.waiting) > 0 && !h.failed {
		h.failed = h.fold.Add(h.waiting) != nil
	}
	clear(h.waiting)
	h.waiting = h.waiting[:0]
}

// complete reports whether all of its events are folded.
func (h *folded) complete() bool { return h.hole == 0 && !h.failed }
