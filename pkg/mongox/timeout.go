package mongox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// ErrNoAnswer is the cause that ends a request which takes too long.
var ErrNoAnswer = errors.New("server does not answer")

// Timeout gives a context that ends after d with the cause [ErrNoAnswer]. Unlike
// [context.WithTimeout] it sets no deadline: if a context has one, the driver (v2.9)
// retries without limit and without a pause until the deadline, instead of once.
func Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(ErrNoAnswer) })
	stop := func() bool { return true }
	if all, ok := ctx.Value(requestsKey{}).(*requests); ok {
		stop = context.AfterFunc(all.until, func() { cancel(mongo.ErrClientDisconnected) })
	}
	return ctx, func() {
		stop()
		timer.Stop()
		cancel(nil)
	}
}

// requests are those of a process.
type requests struct {
	until context.Context //nolint:containedctx // the end of a span of time
	end   context.CancelFunc
}

type requestsKey struct{}

// Requests gives the context of a process that closes its clients in the end: the first
// [Disconnect] with a context made of it ends all contexts that [Timeout] has made of it, also
// behind [context.WithoutCancel]. A request that waits for a server while its client is closed
// would otherwise wait in a busy loop until its own end (driver v2.9.3,
// x/mongo/driver/topology/topology.go: selectServerFromSubscription reads a closed channel).
func Requests(ctx context.Context) context.Context {
	until, end := context.WithCancel(context.Background())
	return context.WithValue(ctx, requestsKey{}, &requests{until, end})
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

// Within makes one request, which ends after d as that of [Timeout] does.
func Within[T any](ctx context.Context, d time.Duration, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := Timeout(ctx, d)
	defer cancel()
	answer, err := request(ctx)
	return answer, Explain(ctx, err)
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
