package drain

import (
	"context"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Handler applies events to the projections.
type Handler interface {
	// Handle applies a batch once and returns a verdict for each delivery, in the same
	// order. The deliveries of an aggregate follow each other, ascending by eventId and
	// each eventId once. Calls of one session follow each other.
	//
	// since is when events of the session could not be finished for the first time; zero if
	// the last call has finished all.
	//
	// Handle does not wait for a store to recover. It returns [model.Retry] for an event that
	// it cannot finish, because the rest of the batch waits for the verdicts. The session then
	// waits, and calls again.
	//
	// It returns [model.Done] only if the result is durable. It ends with ctx, whose cause is
	// [ErrLockLost] shortly before the session's lock ends: no write may begin after that.
	// Unfinished events are then [model.Retry].
	Handle(ctx context.Context, batch []*Delivery, since time.Time) []model.Verdict
}

// ReasonInvalidMessageFormat is the dead-letter reason of a message that is not an event.
const ReasonInvalidMessageFormat = "InvalidMessageFormat"
