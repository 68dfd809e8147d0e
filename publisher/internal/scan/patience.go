package scan

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errNoAnswer is the cause that ends a request which takes too long.
var errNoAnswer = errors.New("server does not answer")

// patient ends after d with the cause errNoAnswer. It has no deadline: to one the
// driver (v2.9) reacts with unlimited retries until then, without a pause between
// them, and against its own limit of one.
func patient(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(errNoAnswer) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// explain adds to err that its request was given up.
func explain(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errNoAnswer) {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return err
}
