package drain

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Connection is one AMQP connection to the broker. Several goroutines accept on
// it at once.
type Connection interface {
	// Accept waits for the next session of the subscription that is free and has
	// messages, until the deadline of ctx: then the broker says that there is none.
	Accept(ctx context.Context) (Accepted, error)
	// Close closes what is left open, too.
	Close(ctx context.Context) error
}

// Accepted is a session that the broker has locked for this process.
type Accepted struct {
	Receiver
	SessionID string
	// LockedUntil is in the broker's clock.
	LockedUntil time.Time
}

// Receiver is the part of the SDK's session receiver that draining uses.
type Receiver interface {
	ReceiveMessages(ctx context.Context, maxMessages int, options *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(ctx context.Context, message *azservicebus.ReceivedMessage, options *azservicebus.CompleteMessageOptions) error
	DeadLetterMessage(ctx context.Context, message *azservicebus.ReceivedMessage, options *azservicebus.DeadLetterOptions) error
	RenewSessionLock(ctx context.Context, options *azservicebus.RenewSessionLockOptions) error
	Close(ctx context.Context) error
}

var _ Receiver = (*azservicebus.SessionReceiver)(nil)

// Subscription makes connections to one subscription of a topic.
type Subscription struct {
	Topic, Name string
	// NewClient makes the SDK's client of a connection. Its own retries should be
	// off.
	NewClient func() (*azservicebus.Client, error)
}

// Dial makes a connection. It does not touch the network: Accept does.
func (s Subscription) Dial() (Connection, error) {
	client, err := s.NewClient()
	if err != nil {
		return nil, err
	}
	return &clientConnection{client: client, topic: s.Topic, subscription: s.Name}, nil
}

type clientConnection struct {
	client              *azservicebus.Client
	topic, subscription string
}

func (c *clientConnection) Accept(ctx context.Context) (Accepted, error) {
	r, err := c.client.AcceptNextSessionForSubscription(ctx, c.topic, c.subscription, nil)
	if err != nil {
		return Accepted{}, err
	}
	return Accepted{Receiver: r, SessionID: r.SessionID(), LockedUntil: r.LockedUntil()}, nil
}

func (c *clientConnection) Close(ctx context.Context) error { return c.client.Close(ctx) }

// patientContext says at first that it ends earlier than it does. The SDK tells the
// broker to wait for a session until the deadline that it finds when it attaches; a
// session granted in the last moment still needs some round trips to become usable,
// and an answer that there is none needs its way back. With an honest deadline both
// would be lost, and the absence of an answer could not be told from the absence of
// a session. Worse, go-amqp makes the deadline that of a write to the socket, and a
// write that misses it by a little closes the connection (conn.go, connWriter): so
// from some time before a deadline on, only a later one shows, twice as far away. The
// last of them is the honest one. Were it the second, a connection that takes longer
// than the first to be made, of 15 round trips or a token that has to be fetched, would
// never get the answer that there is no session.
type patientContext struct {
	context.Context //nolint:containedctx // it is a context
	begun           time.Time
	wait            time.Duration
}

func (c patientContext) Deadline() (time.Time, bool) {
	last, _ := c.Context.Deadline()
	elapsed := time.Since(c.begun)
	for shown := c.wait; ; shown *= 2 {
		at := c.begun.Add(shown)
		if !at.Before(last) {
			return last, true
		}
		if elapsed < shown-shown/4 {
			return at, true
		}
	}
}

// patient gives a context with a deadline in wait, which ends after grace more.
func patient(ctx context.Context, wait, grace time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithTimeout(ctx, wait+grace)
	return patientContext{inner, time.Now(), wait}, cancel
}
