package engine

import (
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Verdict says what the caller must do with the message of an event.
type Verdict uint8

// The verdicts.
const (
	// Pending: the event is not finished, because a store did not answer, another
	// document has a value that must be unique, other processes keep writing, or the
	// context ended. Do not settle the message: pass the event again later, or release
	// the message.
	Pending Verdict = iota
	// Done: the event is durably finished in every target (applied, duplicate, ignored,
	// acknowledged for a parked unit, or deferred). Complete the message.
	Done
	// Poison: like Done, but this event has parked its aggregate in at least one target
	// that readers see. Dead-letter the message, so that operators see it.
	Poison
	// Held: an earlier event of the aggregate is missing. Keep the event and pass it
	// again together with its predecessor or with [Repair], or release the message.
	Held
)

// Result is the outcome of one event over all targets.
type Result struct {
	Verdict Verdict
	// Missing is, for Held, the first missing event. The last missing one is the
	// predecessor of this event or of an earlier one in the batch.
	Missing int64
	// Causes are, for Poison, the errors that parked the aggregate.
	Causes []*projection.Error
	// Answered is set if the store of the read models accepted a write for the event in
	// this call, or rejected one because another document has a unique value. Both show
	// that the store works.
	Answered bool
}

// Gaps says how the engine treats a gap, and a unit that cannot continue.
type Gaps uint8

// The ways to treat gaps.
const (
	// Hold does not apply the events after a gap.
	Hold Gaps = iota
	// Repair reads the missing events from the event store.
	Repair
	// Park does the same as Repair, and then parks the units that still cannot continue.
	// The reason is [ReasonMissing] if the event store has the gap too,
	// [ReasonUnavailable] if a store failed, and [ReasonRejected] if the unit's document
	// conflicts with a unique value of another document. Their events are Done, because a
	// parked unit is resumed from the event store.
	Park
)
