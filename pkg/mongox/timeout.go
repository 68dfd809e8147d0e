package mongox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNoAnswer is the cause that ends a request which takes too long.
var ErrNoAnswer = errors.New("server does not answer")

// Timeout ends after d with the cause [ErrNoAnswer]. It has no deadline: to one the
// driver (v2.9) reacts with unlimited retries until then, without a pause between
// them, and against its own limit of one.
func Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(ErrNoAnswer) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// WithoutDeadline gives a context that ends as ctx does and has no deadline: see [Timeout].
func WithoutDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	return inner, func() {
		stop()
		end(nil)
	}
}

// Explain adds to err, of a request under ctx of [Timeout], that the request was
// given up, if it was.
func Explain(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrNoAnswer) {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return err
}
