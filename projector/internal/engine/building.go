package engine

import (
	"context"
	"errors"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// maxDeferringReads bounds the reads of the event store in one round for units that may be
// deferred. The job that builds their generation reads the same events anyway.
const maxDeferringReads = 16

// fillBuilding reads the events that a unit of a building generation lacks, and reports
// whether the unit can go on. For a unit that may be deferred, it reads only if one page
// completes the unit. It never holds events: the topic delivered the missing ones before
// the generation existed.
func (b *batch) fillBuilding(ctx context.Context, read *repairRead, u *unit) bool {
	from, to := u.watermark+1, u.aggregate.events[len(u.settled)].EventID-1
	tooMany := to-from >= repairPage || len(read.pages) >= maxDeferringReads
	if b.repairer == nil || u.target.Defers && tooMany {
		u.held = true
		return false
	}
	events, err := read.missing(ctx, b, u, from, to)
	// Pages of large events end early.
	complete := int64(len(events)) == to-from+1
	switch {
	case err != nil && !errors.Is(err, errRepairFull):
		u.trouble = err
		return false
	case u.target.Defers && !complete:
		u.held = true
		return false
	case err == nil && len(events) == 0:
		return b.fillAnew(ctx, u)
	case err != nil:
		return true
	}
	u.missing = events
	return true
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
