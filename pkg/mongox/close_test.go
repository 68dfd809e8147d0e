package mongox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
)

// slowClient has a request in flight that never ends.
type slowClient struct{}

func (slowClient) Disconnect(ctx context.Context) error {
	if err := mongoxtest.CheckNoDeadline(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestClientEndsInBoundedTimeWithoutADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		err := mongox.Disconnect(ctx, slowClient{})
		if took := time.Since(begun); !errors.Is(err, mongox.ErrNoAnswer) || took != 2*time.Second {
			t.Errorf("ended after %v: %v", took, err)
		}
	})
}

// slowCursor takes a while to close.
type slowCursor struct {
	takes  time.Duration
	closed bool
}

func (c *slowCursor) Close(ctx context.Context) error {
	select {
	case <-time.After(c.takes):
		c.closed = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestCursorIsClosedInBoundedTimeAfterItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := &slowCursor{takes: 200 * time.Millisecond}
		if err := mongox.CloseCursor(ctx, c); err != nil || !c.closed {
			t.Errorf("closed %t: %v", c.closed, err)
		}
		begun := time.Now()
		err := mongox.CloseCursor(ctx, &slowCursor{takes: time.Hour})
		if took := time.Since(begun); !errors.Is(err, mongox.ErrNoAnswer) || took > time.Second {
			t.Errorf("ended after %v: %v", took, err)
		}
	})
}
