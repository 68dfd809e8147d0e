package drain_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// A subscription without messages gives no session, and one with messages gives a session
// that another process can have at once.
func TestTryKeepsNoSession(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		if err := drain.Try(t.Context(), broker.Dial); err != nil {
			t.Errorf("without messages: %v", err)
		}
		broker.send("a", "a", 1)
		for range 2 {
			if err := drain.Try(t.Context(), broker.Dial); err != nil {
				t.Errorf("with a message: %v", err)
			}
		}
		broker.mu.Lock()
		defer broker.mu.Unlock()
		if a := broker.sessions["a"]; a.owner != nil || a.left != 1 || broker.accepts != 2 || broker.asks != 0 || broker.open != 0 {
			t.Errorf("%d messages are left, after %d accepts and %d calls to receive; %d connections are open, the session is held: %t",
				a.left, broker.accepts, broker.asks, broker.open, a.owner != nil)
		}
	})
}

// A broker that cannot be reached is awaited for any time. A broker that refuses sessions is
// an error for an operator.
func TestAwaitEndsOnlyWithAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := newFakeBroker(2*time.Millisecond, time.Minute)
		began := time.Now()
		broker.acceptErr = func() error {
			if time.Since(began) < time.Hour {
				return &azservicebus.Error{Code: azservicebus.CodeConnectionLost}
			}
			return nil
		}
		failures := 0
		if err := drain.Await(t.Context(), broker.Dial, func(error) { failures++ }); err != nil || failures < 100 {
			t.Errorf("after %d failures: %v", failures, err)
		}

		refusal := &azservicebus.Error{Code: azservicebus.CodeNotFound}
		broker.acceptErr = func() error { return refusal }
		if err := drain.Await(t.Context(), broker.Dial, func(error) {}); !errors.Is(err, drain.ErrRefused) || !errors.Is(err, refusal) {
			t.Errorf("refused: %v", err)
		}

		broker.acceptErr = func() error { return &azservicebus.Error{Code: azservicebus.CodeConnectionLost} }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := drain.Await(ctx, broker.Dial, func(error) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopped: %v", err)
		}
	})
}
