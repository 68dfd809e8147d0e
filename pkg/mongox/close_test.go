package mongox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

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
