package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/pause"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

// pausePoll is how often a command looks whether the leader has stopped.
const pausePoll = 250 * time.Millisecond

type pauseCommand struct {
	cli.Change
	Wait time.Duration `name:"wait" default:"40s" help:"How long to wait until the leader has stopped; 0s means not at all."`
}

// Validate implements [cli.Validator].
func (c *pauseCommand) Validate() error {
	err := requireWhy(c.Change, "nothing is published in the pause, and others must see the reason")
	if c.Wait < 0 {
		err = errors.Join(err, fmt.Errorf("--wait is %v: use 0s or more", c.Wait))
	}
	return err
}

// requireWhy fails if a change has no reason.
func requireWhy(c cli.Change, because string) error {
	if strings.TrimSpace(c.Why) == "" {
		return fmt.Errorf("--why is not set: give the reason, because %s", because)
	}
	return nil
}

func (*pauseCommand) validate(c *config.Config) error { return c.MongoDB.Validate() }

func (c *pauseCommand) run(ctx context.Context, e *environment) error {
	return e.withStores(ctx, func(s *stores) error {
		stream := e.options.Config.Stream.Name
		store := pauseStore(s, e.options.Config)
		before, err := store.Get(ctx)
		if err != nil {
			return err
		}
		if before != nil {
			return fmt.Errorf("stream %s is paused since %s by %s: %s", stream, cli.Time(before.At), before.Who, before.Why)
		}
		err = e.change(ctx, s, c.Change, fmt.Sprintf("stop publishing stream %s until a resume", stream), func(ctx context.Context) (map[string]int64, error) {
			_, err := store.Begin(ctx, c.Person(), c.Why)
			return nil, err
		})
		if err != nil {
			return err
		}
		now, err := awaitStopped(ctx, store, c.Wait)
		switch {
		case err != nil:
			return err
		case now == nil:
			return fmt.Errorf("stream %s was resumed meanwhile", stream)
		case len(now.Stopped) > 0:
			fmt.Fprintf(e.stdout, "stream %s is paused, and %s has stopped publishing\n", stream, strings.Join(now.Stopped, ", "))
		default:
			fmt.Fprintf(e.stdout, "stream %s is paused; no leader has reported that it has stopped\n", stream)
		}
		return nil
	})
}

// awaitStopped waits until a process has stopped for the pause, for at most the given time.
func awaitStopped(ctx context.Context, store *pause.Store, wait time.Duration) (*pause.Pause, error) {
	end := time.Now().Add(wait)
	for {
		now, err := store.Get(ctx)
		if err != nil || now == nil || len(now.Stopped) > 0 || !time.Now().Before(end) {
			return now, err
		}
		if err := backoff.Wait(ctx, pausePoll); err != nil {
			return nil, err
		}
	}
}

type resumeCommand struct{ cli.Change }

func (*resumeCommand) validate(c *config.Config) error { return c.MongoDB.Validate() }

func (c *resumeCommand) run(ctx context.Context, e *environment) error {
	return e.withStores(ctx, func(s *stores) error {
		stream := e.options.Config.Stream.Name
		store := pauseStore(s, e.options.Config)
		before, err := store.Get(ctx)
		if err != nil {
			return err
		}
		if before == nil {
			return fmt.Errorf("stream %s is not paused", stream)
		}
		what := fmt.Sprintf("resume stream %s, which %s paused at %s: %s", stream, before.Who, cli.Time(before.At), before.Why)
		if err := e.change(ctx, s, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
			_, err := store.End(ctx)
			return nil, err
		}); err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "stream %s is resumed\n", stream)
		return nil
	})
}
