package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// DialSDK returns a function that makes connections which accept sessions with
// azservicebus. The function makes no request: Accept does.
func DialSDK(s sbus.Subscription) func() (Connection, error) {
	return func() (Connection, error) {
		var changed <-chan struct{}
		if s.Changed != nil {
			changed = s.Changed()
		}
		client, err := s.NewClient()
		if err != nil {
			return nil, err
		}
		return &clientConnection{client: client, changed: changed, topic: s.Topic, subscription: s.Name}, nil
	}
}

type clientConnection struct {
	client *azservicebus.Client
	// changed is closed when the client has an old key.
	changed             <-chan struct{}
	topic, subscription string
}

func (c *clientConnection) Accept(ctx context.Context, wait time.Duration) (Accepted, error) {
	r, err := c.client.AcceptNextSessionForSubscription(earlyDeadline{ctx, time.Now(), wait}, c.topic, c.subscription, nil)
	if noSession(err) {
		return Accepted{}, fmt.Errorf("%w: %w", ErrNoSession, err)
	}
	if err != nil {
		return Accepted{}, sbus.Readable(err)
	}
	return Accepted{Receiver: r, SessionID: r.SessionID(), LockedUntil: r.LockedUntil()}, nil
}

func (c *clientConnection) Expired() bool { return isClosed(c.changed) }

func (c *clientConnection) Close(ctx context.Context) error { return c.client.Close(ctx) }

// earlyDeadline is a context whose Deadline is earlier than its end. The SDK asks the
// broker to wait for a session until the context's deadline. A session that is granted at
// the last moment still needs some round trips, and so does the answer that there is
// none. With the real deadline, both would arrive too late.
//
// go-amqp uses the deadline for writes to the socket, and a late write closes the
// connection (conn.go, connWriter). So after three quarters of the time to the reported
// deadline, the context reports one twice as far away, and at last the real end. So an
// accept still gets its answer if it takes longer than wait, because of its 15 round
// trips or a token.
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
