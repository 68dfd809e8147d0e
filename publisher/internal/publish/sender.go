package publish

import (
	"context"
	"errors"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// Sender is one connection to the topic. It must be safe for concurrent use; concurrent
// sends have no order.
type Sender interface {
	// Send sends as many of the leading messages as one broker message can hold, all or
	// nothing, and waits for the broker's answer. accepted is the number of messages sent:
	// at least 1 if err is nil, otherwise 0. Several messages are sent as a batch, a single
	// one is not. Errors are of type [*SendError]; any other error counts as
	// [FaultDisconnected].
	Send(ctx context.Context, messages []*event.Message) (accepted int, err error)
	// Close closes the connection. Sends in flight fail.
	Close(ctx context.Context) error
}

// Connect opens a connection that is ready to send. Its errors are handled like those of
// Send: only [FaultFatal] can end the term, all others are retried.
type Connect func(ctx context.Context) (Sender, error)

// Fault is the kind of a failed send. It determines what happens next.
type Fault int

// The faults.
const (
	// FaultDisconnected: the sender can no longer be used, and it is unknown whether the
	// broker has the messages.
	FaultDisconnected Fault = iota
	// FaultTransient: the same send may succeed later.
	FaultTransient
	// FaultBusy: the namespace is throttled. Wait at least 2 s
	// (learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling).
	FaultBusy
	// FaultTooLarge: the messages exceed the limit of the topic.
	FaultTooLarge
	// FaultRefused: the topic refuses these messages. A batch is halved. A single message
	// that is refused repeatedly goes to the quarantine.
	FaultRefused
	// FaultMixed: the topic accepts no batch of several session keys.
	FaultMixed
	// FaultBatch: the topic accepts no batch.
	FaultBatch
	// FaultFatal needs an operator: unauthorized, no such topic, disabled. It ends the
	// term if it lasts, see [Availability].
	FaultFatal

	// faults is the number of faults.
	faults
)

var faultNames = [faults]string{
	FaultDisconnected: "disconnected", FaultTransient: "transient", FaultBusy: "busy", FaultTooLarge: "too_large",
	FaultRefused: "refused", FaultMixed: "mixed_refused", FaultBatch: "batch_refused", FaultFatal: "fatal",
}

// String is the fault's name in metrics and logs.
func (f Fault) String() string { return faultNames[f] }

// SendError is the error of a [Sender].
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

func (e *SendError) Error() string { return e.Fault.String() + ": " + sbus.Readable(e.Err).Error() }

// Unwrap gives the SDK's error.
func (e *SendError) Unwrap() error { return e.Err }

// faultOf gives the fault of any error of a sender. Unknown errors count as a lost
// connection, because that handling is safe for every error.
func faultOf(err error) (fault Fault, broken bool) {
	if sendErr, ok := errors.AsType[*SendError](err); ok {
		return sendErr.Fault, sendErr.Broken || sendErr.Fault == FaultDisconnected
	}
	return FaultDisconnected, true
}
