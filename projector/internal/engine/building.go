package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// maxDeferringReads bounds the reads of the event store in one round for units that may be
// deferred. The job that builds their generation reads the same events anyway.
const maxDeferringReads = 16

// maxBlindBytes bounds the history that is read at once to replace the document of a stale
// writer, in addition to its first page.
const maxBlindBytes = 64 << 20

// errLongHistory says that a history is too long to be read at once. The unit is then
// parked, and resumed page by page; its marker keeps other writers away.
var errLongHistory = errors.New("the history is too long to replace the document of an older generation at once")

// blind reports whether the unit's watermark does not show which events it lacks: event ids
// only increase, and its generation is being built or a stale writer has written it. In a
// strict sequence a gap shows the missing events.
func (u *unit) blind(strict bool) bool {
	return !strict && (u.target.Building || u.foreign != nil)
}

// unread reports whether the event store must be read for a blind unit before its events
// are folded.
func (u *unit) unread(strict bool) bool {
	return u.blind(strict) && len(u.missing) == 0 && u.read < u.aggregate.last()
}

// fillBuilding reads the events that a unit of a building generation lacks, and reports
// whether the unit can go on. For a unit that may be deferred, it reads only if one page
// completes the unit. It never holds events: the topic delivered the missing ones before
// the generation existed.
func (b *batch) fillBuilding(ctx context.Context, read *repairRead, u *unit) bool {
	from, to := u.watermark+1, u.aggregate.last()
	if b.strict {
		to = u.aggregate.events[len(u.settled)].EventID - 1
	}
	tooMany := b.strict && to-from >= repairPage || len(read.pages) >= maxDeferringReads
	if b.repairer == nil || u.target.Defers && tooMany {
		u.held = true
		return false
	}
	events, err := read.missing(ctx, b, u, from, to)
	if !b.strict && !u.target.Building {
		events, err = b.restOf(ctx, read, u, events, err, to)
	}
	// The number of events does not show whether there are more, because pages of large
	// events end early.
	complete := b.strict && int64(len(events)) == to-from+1 || !b.strict && (len(events) == 0 || events[len(events)-1].EventID >= to)
	switch {
	case err != nil && !errors.Is(err, errRepairFull):
		u.trouble = err
		return false
	case u.target.Defers && !complete, err == nil && b.strict && len(events) == 0:
		u.held = true
		return false
	case err != nil:
		return true
	}
	u.missing = events
	if !b.strict {
		u.read, u.after = to, from-1
		if u.target.Building && !complete {
			u.read = events[len(events)-1].EventID
		}
	}
	return true
}

// restOf reads the pages after the first one. The document of a stale writer must be
// replaced in one write: after half of the history, another process could apply the next
// event without the other half.
func (b *batch) restOf(ctx context.Context, read *repairRead, u *unit, events []*projection.Event, err error, to int64) ([]*projection.Event, error) {
	first := read.bytes
	for err == nil && len(events) > 0 && events[len(events)-1].EventID < to {
		if read.bytes-first > maxBlindBytes {
			return nil, errLongHistory
		}
		var page []*projection.Event
		page, err = read.page(ctx, b, u, events[len(events)-1].EventID+1, to)
		if len(page) == 0 {
			break
		}
		events = slices.Concat(events, page)
	}
	return events, err
}

// deferRest leaves unfinished events to the jobs that build the generations. A unit whose
// target was replaced is not deferred: its events are offered again under the new targets.
func (b *batch) deferRest() {
	for _, u := range b.units {
		if !u.target.Defers || u.finished() || errors.Is(u.trouble, model.ErrSuperseded) {
			continue
		}
		u.trouble, u.held, u.conflict = nil, false, nil
		u.settleRest(settledDeferred)
	}
}
