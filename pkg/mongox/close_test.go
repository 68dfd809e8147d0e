package mongox_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// slowClient has a request in flight that never ends.
type slowClient struct{}

func (slowClient) Disconnect(ctx context.Context) error {
	if err := mongotest.CheckNoDeadline(ctx); err != nil {
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

// noNetwork connects to nothing.
type noNetwork struct{}

func (noNetwork) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no route to host")
}

// A request that waits for a server does not outlive its client, although its own time has not
// come. The driver lets it wait in a busy loop, in which no virtual time passes.
func TestWaitingRequestsEndWithTheirClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := mongox.Requests(t.Context())
		client, err := mongox.Open("mongodb://db:27017/?replicaSet=rs0", mongox.Options{Dialer: noNetwork{}})
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() {
			asking, cancel := mongox.Timeout(context.WithoutCancel(ctx), time.Hour)
			defer cancel()
			answer <- client.Database("shop").Collection("events").FindOne(asking, bson.D{}).Err()
		}()
		<-time.After(time.Second)
		if err := mongox.Disconnect(ctx, client); err != nil {
			t.Error(err)
		}
		if err := <-answer; err == nil {
			t.Error("a client without a server has answered")
		}
	})
}

// slowCursor takes a while to close.
type slowCursor struct {
	takes  time.Duration
	closed bool
}

func (c *slowCursor) Close(ctx context.Context) error {
	if poll.Wait(ctx, c.takes) != nil {
		return ctx.Err()
	}
	c.closed = true
	return nil
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
