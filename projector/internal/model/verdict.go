package model

// Attempt says what one call may do to finish its events.
type Attempt uint8

// The attempts. The zero value is Hold.
const (
	// Hold applies the events that can be applied, and leaves events after a gap.
	Hold Attempt = iota
	// Repair also reads missing predecessors from the event store.
	Repair
	// GiveUp also parks each aggregate that still cannot continue, because an event is
	// missing in the event store too, a store fails, or its document conflicts with a unique
	// value of another one. Its events are [Done] when the parking is durable, because they
	// are in the event store and the aggregate resumes from there.
	GiveUp
)

// Outcome is the result for an event, over all projections. It says what to do with the
// event's message.
type Outcome uint8

// The outcomes. The zero value is Retry.
const (
	// Retry: the event is not finished, because a store did not answer, another document has
	// a value that must be unique, other processes keep writing, or the context ended. The
	// message is not settled, and the event is tried again after a backoff.
	Retry Outcome = iota
	// Done: the event is durably finished in every projection, by this call or an earlier
	// one: applied, ignored, acknowledged for an aggregate that is parked, also by this event, or left to the job that
	// builds a generation. The message is completed.
	Done
	// Gap: a projection has not seen the event's predecessor, so nothing of the event was
	// applied there. In a call that repairs, the event store does not have the predecessor
	// either. The event is tried again, with its predecessor or with [Repair].
	Gap
	// Deferred: the call had no room for the event. That is not a failure: the event is
	// offered again in the next call. A call that defers an event must finish another event,
	// or return Retry for it.
	Deferred
)

// Final reports whether the event is durably finished, so that its message can be settled.
func (o Outcome) Final() bool { return o == Done }

// String is the outcome in a trace.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case Gap:
		return "gap"
	case Deferred:
		return "deferred"
	}
	return "retry"
}

// Verdict is the outcome of one event.
type Verdict struct {
	Outcome Outcome
	// Answered says that the store of the read models accepted a write for the event in
	// this call, or refused one because another document has a unique value. Both show that
	// the store works. It is false if nothing had to be written.
	Answered bool
	// Missing is the eventId of the first missing event, for a Gap. All later events of the
	// aggregate that meet the same gap have the same value. The last missing event is the
	// predecessor of this event or of an earlier one.
	Missing int64
	// Err explains a Retry in a trace.
	Err error
}
