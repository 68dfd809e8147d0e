package model

// Outcome is the result for an event, over all projections. It says what to do with the
// event's message.
type Outcome uint8

// The outcomes. The zero value is Retry.
const (
	// Retry: the event is not finished, because a store does not answer, a promotion pauses
	// the writes, or the context ended. The message is not settled, and the event is tried
	// again after a backoff.
	Retry Outcome = iota
	// Done: the event is durably finished in every projection, by this call or an earlier
	// one: applied, ignored, acknowledged for an aggregate that is parked, also by this event,
	// or left to the job that builds a generation. The message is completed.
	Done
	// Deferred: the call had no room for the event. That is not a failure: the event is
	// offered again in the next call. A call that defers an event must finish another event,
	// or return Retry for it.
	Deferred
)

// String is the outcome in a trace.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case Deferred:
		return "deferred"
	}
	return "retry"
}

// Verdict is the outcome of one event.
type Verdict struct {
	Outcome Outcome
	// Err explains a Retry in a trace.
	Err error
}
