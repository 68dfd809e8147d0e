package readmodel

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/backoff"
)

var (
	errLost       = mongo.CommandError{Code: 6, Name: "HostUnreachable", Message: "lost on the way", Labels: []string{"NetworkError"}}
	errUnanswered = mongo.CommandError{Code: 89, Name: "NetworkTimeout", Message: "no reply", Labels: []string{"NetworkError"}}
)

// arrive delays a command on its way to the server, and may lose it.
func (f *fakeDatabase) arrive(ctx context.Context, command, collection string) error {
	f.mu.Lock()
	f.calls[command]++
	lost := f.random.Float64() < f.lost
	f.mu.Unlock()
	if err := f.delay(ctx); err != nil {
		return err
	}
	if lost {
		return errLost
	}
	if f.onArrival != nil {
		f.onArrival(command, collection)
	}
	return nil
}

// reply delays the reply, and may lose it.
func (f *fakeDatabase) reply(ctx context.Context) error {
	f.mu.Lock()
	unanswered := f.random.Float64() < f.unanswered
	f.mu.Unlock()
	if err := f.delay(ctx); err != nil {
		return err
	}
	if unanswered {
		return errUnanswered
	}
	return nil
}

func (f *fakeDatabase) delay(ctx context.Context) error {
	if f.latency == 0 {
		return ctx.Err()
	}
	f.mu.Lock()
	d := time.Duration(f.random.Int64N(int64(f.latency)))
	f.mu.Unlock()
	return backoff.Wait(ctx, d)
}

// send carries a command out even if ctx ends meanwhile, because the command is in flight.
func send[T any](ctx context.Context, command func(context.Context) (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	replies := make(chan reply, 1)
	go func() {
		value, err := command(context.WithoutCancel(ctx))
		replies <- reply{value, err}
	}()
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
