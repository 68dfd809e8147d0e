package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// DialSDK makes connections that accept sessions with azservicebus. It does not touch the
// network: Accept does.
func DialSDK(s sbus.Subscription) func() (Connection, error) {
	return func() (Connection, error) {
		client, err := s.NewClient()
		if err != nil {
			return nil, err
		}
		return &clientConnection{client: client, topic: s.Topic, subscription: s.Name}, nil
	}
}

type clientConnection struct {
	client              *azservicebus.Client
	topic, subscription string
}

func (c *clientConnection) Accept(ctx context.Context, wait time.Duration) (Accepted, error) {
	r, err := c.client.AcceptNextSessionForSubscription(earlyDeadline{ctx, time.Now(), wait}, c.topic, c.subscription, nil)
	if noSession(err) {
		return Accepted{}, fmt.Errorf("%w: %w", ErrNoSession, err)
	}
	if err != nil {
		return Accepted{}, err
	}
	return Accepted{Receiver: r, SessionID: r.SessionID(), LockedUntil: r.LockedUntil()}, nil
}

func (c *clientConnection) Close(ctx context.Context) error { return c.client.Close(ctx) }

// earlyDeadline shows a deadline that is earlier than its end. The SDK asks the broker to
// wait for a session until the deadline that it finds when it attaches. A session that is
// granted in the last moment still needs some round trips, and so does the answer that
// there is none. With the real deadline both would be lost.
//
// go-amqp makes the deadline that of a write to the socket, and a late write closes the
// connection (conn.go, connWriter). So shortly before a shown deadline the context shows
// one twice as far away. The last one is the real end. A connection that takes longer
// than wait to be made, because of 15 round trips or a token, still gets its answer.
type earlyDeadline struct {
	context.Context //nolint:containedctx // it is a context
	begun           time.Time
	wait            time.Duration
}

func (c earlyDeadline) Deadline() (time.Time, bool) {
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

// noSession reports whether the broker answered that no session is free.
func noSession(err error) bool {
	var sdk *azservicebus.Error
	return errors.As(err, &sdk) && sdk.Code == azservicebus.CodeTimeout
}
