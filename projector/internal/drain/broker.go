package drain

import (
	"context"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
)

// Connection is one AMQP connection to the broker. Several goroutines accept on
// it at once.
type Connection interface {
	// Accept waits for the next session of the subscription that is free and has
	// messages. The broker is asked to wait for at most wait: then the error is
	// [ErrNoSession]. ctx ends later, unless the caller cancels the accept.
	Accept(ctx context.Context, wait time.Duration) (Accepted, error)
	// Close closes what is left open, too.
	Close(ctx context.Context) error
}

// Accepted is a session that the broker has locked for this process.
type Accepted struct {
	Receiver
	SessionID string
	// LockedUntil is in the broker's clock.
	LockedUntil time.Time
	// InOrder says that the receiver hands out all messages in the broker's order. If it is
	// false, the receiver can release a message and hand out its successor first.
	InOrder bool
}

// ErrNoSession is the broker's answer that no session is free and has messages.
var ErrNoSession = errors.New("no session is available")

// Receiver is the part of a session receiver that draining uses. There are two: the SDK's,
// and that of package sessions.
type Receiver interface {
	ReceiveMessages(ctx context.Context, maxMessages int, options *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(ctx context.Context, message *azservicebus.ReceivedMessage, options *azservicebus.CompleteMessageOptions) error
	DeadLetterMessage(ctx context.Context, message *azservicebus.ReceivedMessage, options *azservicebus.DeadLetterOptions) error
	RenewSessionLock(ctx context.Context, options *azservicebus.RenewSessionLockOptions) error
	Close(ctx context.Context) error
}

var (
	_ Receiver = (*azservicebus.SessionReceiver)(nil)
	_ Receiver = (*sessions.Session)(nil)
)
