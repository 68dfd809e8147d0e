package drain

import "context"

// Handler applies events to the projections.
type Handler interface {
	// Handle applies a batch once and returns a verdict for each delivery, in the same
	// order. The deliveries of an aggregate follow each other, ascending by eventId and
	// each eventId once. Calls of one session overlap, but no two of them have events of
	// the same aggregate, as long as the lock of its session holds.
	//
	// Handle does not wait for a store to recover. It returns [Retry] for an event that it
	// cannot finish, because the rest of the batch waits for the verdicts. Draining waits
	// for each aggregate separately, and calls again.
	//
	// It returns [Done] and [Poison] only if the result is durable. It ends with ctx, whose
	// cause is [ErrLockLost] shortly before the session's lock ends: no write may begin
	// after that. Unfinished events are then [Retry].
	Handle(ctx context.Context, batch []*Delivery, attempt Attempt) []Verdict
}

// Holder is a [Handler] with state for each session.
type Holder interface {
	Handler
	// Hold returns the handler for the events of one session. Draining drops it after its
	// last call has returned.
	Hold() Handler
}

// Judge prevents a process that misreads its messages from dead-lettering all of them.
type Judge interface {
	// Good says that messages are events.
	Good()
	// Bad reports whether a message that is not an event may be dead-lettered now.
	// Otherwise it stays unsettled, and is asked about again.
	Bad(messageID string, err error) bool
}

// Attempt says what a call of [Handler] may do to finish its events.
type Attempt uint8

// The attempts. The zero value is Hold.
const (
	// Hold applies the events that can be applied, and leaves events after a gap.
	Hold Attempt = iota
	// Repair also reads missing predecessors from the event store.
	Repair
	// GiveUp also parks each aggregate that still cannot continue. Its events are [Done]
	// when the parking is durable, because they are in the event store and the aggregate
	// resumes from there.
	GiveUp
)

// Outcome is the result for an event, over all projections.
type Outcome uint8

// The outcomes. The zero value is Retry.
const (
	// Retry says that a store failed. The event is tried again after a backoff.
	Retry Outcome = iota
	// Done says that the event's effects are durable in every projection, whether this
	// call wrote them or an earlier one did. The message is completed.
	Done
	// Gap says that a projection has not seen the event's predecessor, so nothing of the
	// event was applied there. In a call that repairs, the event store does not have the
	// predecessor either.
	Gap
	// Poison says that a projection was parked at this event and that the event is durable
	// in every other projection. The message is dead-lettered, so that operators see it.
	Poison
	// Deferred says that the call had no room for the event. That is not a failure: the
	// event is offered again in the next call. A call that defers an event must finish
	// another event, or return Retry for it.
	Deferred
)

// String is the outcome in a trace.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case Gap:
		return "gap"
	case Poison:
		return "poison"
	case Deferred:
		return "deferred"
	}
	return "retry"
}

// Verdict is the outcome of one delivery.
type Verdict struct {
	Outcome Outcome
	// Answered says that the store of the read models accepted a write for the event in
	// this call, or refused one because of another document. This shows that the store
	// works. It is false if nothing had to be written.
	Answered bool
	// Missing is the eventId of the first missing event, for a Gap. It identifies the gap:
	// all later events of the aggregate that meet the same gap have the same value.
	Missing int64
	// Reason and Err explain a Poison in the dead-letter queue, and Err a Retry in
	// the log.
	Reason string
	Err    error
}

// ReasonInvalidMessageFormat is the dead-letter reason of a message that is not an event.
const ReasonInvalidMessageFormat = "InvalidMessageFormat"
