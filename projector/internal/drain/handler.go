package drain

import "context"

// Handler applies events to the projections.
type Handler interface {
	// Handle applies a batch and returns a verdict for each delivery, in the same
	// order. The deliveries of an aggregate follow each other, ascending by eventId
	// and each eventId once. No two calls at the same time have events of the same
	// aggregate, as long as the lock of its session holds.
	//
	// repair asks it to close gaps by itself: the predecessors have not come within
	// the time that the deliveries were held.
	//
	// It returns [Done] and [Poison] only for what is durable. It ends with ctx, which
	// carries the cause [ErrLockLost] shortly before the session's lock ends: no write
	// may begin after that. What is not finished then is [Retry].
	Handle(ctx context.Context, batch []*Delivery, repair bool) []Verdict
}

// Outcome is what became of an event, over all projections.
type Outcome uint8

// The outcomes. The zero value is Retry.
const (
	// Retry says that a store was not able to: the event is tried again, in place.
	Retry Outcome = iota
	// Done says that the event's effects are durable in every projection, be it
	// because they were before. The message is completed.
	Done
	// Gap says that a projection has not seen the event's predecessor, and nothing
	// of the event was applied there.
	Gap
	// Poison says that a projection was parked at this event and every other one has
	// it durably. The message is dead-lettered for visibility.
	Poison
)

// Verdict is the outcome of one delivery.
type Verdict struct {
	Outcome Outcome
	// Reason and Err explain a Poison in the dead-letter queue, and Err a Retry in
	// the log.
	Reason string
	Err    error
}

// ReasonInvalidMessageFormat is the dead-letter reason of a message that is no
// event.
const ReasonInvalidMessageFormat = "InvalidMessageFormat"
