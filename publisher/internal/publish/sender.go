package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Sender is one connection to the topic. It is used by many goroutines at once;
// the order of concurrent sends means nothing.
type Sender interface {
	// Send sends as many of the leading messages as one broker message can hold,
	// all or nothing, and waits for the broker's answer. accepted is how many that
	// were: at least 1 where err is nil, and 0 otherwise. More than one message is
	// a batch, a single one is none. An error is a [*SendError]; any other counts as
	// [FaultDisconnected].
	Send(ctx context.Context, messages []*event.Message) (accepted int, err error)
	// Close releases the connection. Sends that are under way fail.
	Close(ctx context.Context) error
}

// Connect opens one connection, ready to send. Its errors are judged like those
// of Send: only [FaultFatal] can end the term, everything else is retried.
type Connect func(ctx context.Context) (Sender, error)

// Fault says what a failed send means for what comes next.
type Fault int

// The faults.
const (
	// FaultDisconnected: the sender is of no more use, and whether the broker has
	// the messages is unknown.
	FaultDisconnected Fault = iota
	// FaultTransient: the same send may succeed later.
	FaultTransient
	// FaultBusy: the namespace is throttled. Wait at least 2 s
	// (learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling).
	FaultBusy
	// FaultTooLarge: the messages exceed what the topic takes at once.
	FaultTooLarge
	// FaultRefused: the topic refuses the messages as they stand. A batch is halved; a
	// single message that stays refused goes to the quarantine.
	FaultRefused
	// FaultMixed: the topic takes no batch of several session keys.
	FaultMixed
	// FaultBatch: the topic takes no batch at all.
	FaultBatch
	// FaultFatal needs an operator: unauthorized, no such topic, disabled. It ends the
	// term if it lasts, see [Availability].
	FaultFatal

	// faults is how many there are.
	faults
)

// String is the fault's name in metrics and logs.
func (f Fault) String() string {
	switch f {
	case FaultDisconnected:
		return "disconnected"
	case FaultTransient:
		return "transient"
	case FaultBusy:
		return "busy"
	case FaultTooLarge:
		return "too_large"
	case FaultRefused:
		return "refused"
	case FaultMixed:
		return "mixed_refused"
	case FaultBatch:
		return "batch_refused"
	case FaultFatal:
		return "fatal"
	default:
		return fmt.Sprintf("fault(%d)", int(f))
	}
}

// SendError is what a [Sender] reports.
type SendError struct {
	Fault Fault
	// Broken says that the sender must be replaced, whatever the fault; it is
	// implied by [FaultDisconnected]. A fault that would keep a message from the topic
	// then counts only if other senders report it, too.
	Broken bool
	// First says, with [FaultTooLarge] and [FaultRefused], that the first message is the
	// reason.
	First bool
	Err   error
}

func (e *SendError) Error() string { return e.Fault.String() + ": " + e.Err.Error() }

// Unwrap gives the SDK's error.
func (e *SendError) Unwrap() error { return e.Err }

// faultOf judges any error of a sender; what it does not know counts as a lost
// connection, the one fault whose handling is right for every other.
func faultOf(err error) (fault Fault, broken bool) {
	if sendErr, ok := errors.AsType[*SendError](err); ok {
		return sendErr.Fault, sendErr.Broken || sendErr.Fault == FaultDisconnected
	}
	return FaultDisconnected, true
}
