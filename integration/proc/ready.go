package proc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ReadyTimeout bounds the start of one program until it is ready.
const ReadyTimeout = 90 * time.Second

// readyPoll is the pause between two checks whether a program is ready.
const readyPoll = 50 * time.Millisecond

// Await calls done at each interval until it returns true or an error, or until ctx ends.
func Await(ctx context.Context, interval time.Duration, what string, done func() (bool, error)) error {
	poll := time.NewTicker(interval)
	defer poll.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("await %s: %w", what, context.Cause(ctx))
		}
	}
}

// AwaitReady polls until ready succeeds. It fails with the last error of ready if the
// process ends first, or if ctx or [ReadyTimeout] ends.
func (p *Process) AwaitReady(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, ReadyTimeout, fmt.Errorf("not ready within %s", ReadyTimeout))
	defer cancel()
	var last error
	err := Await(ctx, readyPoll, p.Name+", which is not ready", func() (bool, error) {
		if !p.Running() {
			return false, fmt.Errorf("%s ended (%w)", p.Name, p.Err())
		}
		last = ready(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("start %s: %w; see %s", p.Name, errors.Join(err, last), p.Log)
	}
	return nil
}
