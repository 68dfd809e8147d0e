package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
)

// DialAMQP makes connections that accept sessions over AMQP, without azservicebus. The
// first Accept connects.
func DialAMQP(o sessions.Options) func() (Connection, error) {
	return func() (Connection, error) { return amqpConnection{sessions.New(o)}, nil }
}

type amqpConnection struct{ *sessions.Connection }

// Expired is false: each claim of the connection is signed with the present key.
func (c amqpConnection) Expired() bool { return false }

func (c amqpConnection) Accept(ctx context.Context, wait time.Duration) (Accepted, error) {
	s, err := c.Connection.Accept(ctx, wait)
	if errors.Is(err, sessions.ErrNoSession) {
		return Accepted{}, fmt.Errorf("%w: %w", ErrNoSession, err)
	}
	if err != nil {
		return Accepted{}, sbus.Readable(err)
	}
	return Accepted{Receiver: s, SessionID: s.SessionID(), LockedUntil: s.LockedUntil()}, nil
}
