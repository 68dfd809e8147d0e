package drain

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// Try accepts a session over a connection of its own, to find out whether the subscription
// gives sessions. It returns nil also if no session is available: only a subscription with
// sessions answers that. It receives nothing, and releases a session that it gets at once.
func Try(ctx context.Context, dial func() (Connection, error)) error {
	conn, err := dial()
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(closing) // also releases a session that could not be closed
	}()
	ctx, cancel := context.WithTimeout(ctx, firstAcceptWait+acceptGrace)
	defer cancel()
	accepted, err := conn.Accept(ctx, firstAcceptWait)
	switch {
	case err == nil:
		_ = accepted.Close(ctx)
	case !errors.Is(err, ErrNoSession):
		return err
	}
	return nil
}

// Await repeats [Try] until it succeeds, and calls failed after each failure. It returns
// [ErrRefused] in the same cases as [Acceptor.Run], and the cause of ctx if that ends.
func Await(ctx context.Context, dial func() (Connection, error), failed func(error)) error {
	refusals := 0
	for failures := 1; ; failures++ {
		err := Try(ctx, dial)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		pause := poll.After(firstAcceptPause, maxAcceptPause, failures)
		switch sbus.Classify(err) {
		case sbus.ClassFatal, sbus.ClassRefused:
			if refusals++; refusals == refusalsOut {
				return fmt.Errorf("%w: %w", ErrRefused, err)
			}
		case sbus.ClassBusy:
			pause = max(pause, busyWait)
		}
		failed(err)
		if err := poll.Wait(ctx, pause); err != nil {
			return err
		}
	}
}
