package proc

import (
	"context"
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
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-p.Exited():
			return fmt.Errorf("start %s: it ended (%w); see %s", p.Name, p.Err(), p.Log)
		case <-ctx.Done():
			return fmt.Errorf("start %s: %w (%w); see %s", p.Name, context.Cause(ctx), err, p.Log)
		}
	}
}
