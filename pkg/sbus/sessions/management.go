package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/go-amqp"
)

const (
	// managementSuffix turns an entity's path into the path of its management node.
	managementSuffix = "/$management"
	// defaultServerTimeout is how long the broker may take for a request whose context has
	// no deadline.
	defaultServerTimeout = time.Minute
)

// management gives the links to the management node, which all sessions of the
// connection share. It attaches them at the first use, and again after the broker has
// detached them, which it does after ten minutes without a request.
func (l *line) management(ctx context.Context) (*requests, error) {
	select {
	case l.managing <- struct{}{}:
		defer func() { <-l.managing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.node != nil && l.node.alive() {
		return l.node, nil
	}
	if l.node != nil {
		l.node.closed()
		l.end(l.node.channel)
		l.node = nil
	}
	node, err := l.openRequests(ctx, l.path+managementSuffix)
	if err != nil {
		return nil, fmt.Errorf("open the link to the management node: %w", err)
	}
	l.node = node
	return node, nil
}

// renew renews the lock of a session that link holds.
func (l *line) renew(ctx context.Context, link, session string) error {
	for attempt := 1; ; attempt++ {
		node, err := l.management(ctx)
		if err != nil {
			return err
		}
		timeout := defaultServerTimeout
		if deadline, ok := ctx.Deadline(); ok {
			timeout = max(time.Until(deadline), 0)
		}
		reply, err := node.do(ctx, &amqp.Message{
			Value: map[string]any{"session-id": session},
			ApplicationProperties: map[string]any{
				"operation":            "com.microsoft:renew-session-lock",
				"associated-link-name": link,
				"server-timeout":       uint(timeout.Milliseconds()),
			},
		})
		if detached(err) && attempt == 1 && ctx.Err() == nil {
			// The broker detached the shared links. That does not affect this lock.
			continue
		}
		if err != nil {
			return err
		}
		if body, ok := reply.Value.(map[string]any); ok {
			if _, ok := body["expiration"].(time.Time); ok {
				return nil
			}
		}
		return fmt.Errorf("the broker's reply to a renewal has no expiration: %v", reply.Value)
	}
}

// detached reports whether the broker has ended a link or an AMQP session, but not the
// connection.
func detached(err error) bool {
	var link *amqp.LinkError
	var channel *amqp.SessionError
	return errors.As(err, &link) || errors.As(err, &channel)
}
