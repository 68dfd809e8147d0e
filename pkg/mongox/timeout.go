package mongox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNoAnswer is the cause that ends a request which takes too long.
var ErrNoAnswer = errors.New("server does not answer")

// Timeout gives a context that ends after d with the cause [ErrNoAnswer]. Unlike
// [context.WithTimeout] it sets no deadline: if a context has one, the driver (v2.9)
// retries without limit and without a pause until the deadline, instead of once.
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

// Explain adds [ErrNoAnswer] to the error of a request if the request ended because ctx,
// made by [Timeout], timed out. If no server took the request, the text names the servers
// and their errors instead of the driver's dump of its topology.
func Explain(ctx context.Context, err error) error {
	err = withoutTopology(err)
	if err != nil && errors.Is(context.Cause(ctx), ErrNoAnswer) {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return err
}
