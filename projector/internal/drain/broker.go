package drain

import (
	"context"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
)

// Connection is one AMQP connection to the broker. It must allow concurrent accepts.
type Connection interface {
	// Accept waits for the next session of the subscription that is free and has messages.
	// It asks the broker to wait for at most wait; the error is then [ErrNoSession]. The
	// deadline of ctx is later than that. The caller can cancel the accept by ctx.
	Accept(ctx context.Context, wait time.Duration) (Accepted, error)
	// Expired reports whether the key of the connection has changed. Its sessions work on, but
	// the broker may refuse the next accept.
	Expired() bool
	// Close also closes the sessions that are still open.
	Close(ctx context.Context) error
}

// Accepted is a session that the broker has locked for this process.
type Accepted struct {
	Receiver
	SessionID string
	// LockedUntil is by the broker's clock.
	LockedUntil time.Time
}

// ErrNoSession is the broker's answer that no session is free and has messages.
var ErrNoSession = errors.New("no session is available")

// Receiver is the part of a session receiver that draining uses. The SDK and package
// sessions implement it.
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
