package project

// Verdict says what the message of an event deserves.
type Verdict uint8

// The verdicts.
const (
	// Pending: not finished, because a store did not answer, another document holds a
	// value that has to be unique, other processes keep writing, or the context ended.
	// Do not settle: offer it again later, or give it back.
	Pending Verdict = iota
	// Done: every target is durably done with it (applied, duplicate, ignored, acknowledged
	// for a parked unit, or deferred). Complete the message.
	Done
	// Poison: as Done, but this event has parked its aggregate in at least one
	// target that readers see. Dead-letter the message, for visibility.
	Poison
	// Held: an earlier event of the aggregate is missing. Hold it, offer it again with
	// its predecessor or with [Repair], or give it back.
	Held
)

// Result is what became of one event over all targets.
type Result struct {
	Verdict Verdict
	// Missing is, for Held, the first event that is missing; the last one is the
	// predecessor of this event or of an earlier one in the batch.
	Missing int64
	// Causes are, for Poison, the errors that parked the aggregate.
	Causes []*Error
	// Answered is whether the store of the read models took a write for the event in this
	// call, or refused one because another document holds a unique value. Either shows
	// that the store works.
	Answered bool
}

// Gaps says what to do about a gap, and about a unit that cannot go on.
type Gaps uint8

// The ways.
const (
	// Hold leaves the events after a gap alone.
	Hold Gaps = iota
	// Repair reads the missing events from the event store.
	Repair
	// Park does what Repair does, and then parks the units that still cannot go on:
	// with [ReasonMissing] where the event store has the gap too, with
	// [ReasonUnavailable] where a store failed. Their events are Done: the event store
	// has them, and the units are resumed from it. A unit whose document conflicts with
	// another one's unique value is parked with [ReasonRejected].
	Park
)
