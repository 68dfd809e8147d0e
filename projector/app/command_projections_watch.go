package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/refold"
	"github.com/penstock-cdc/penstock/projector/internal/stores"
)

type projectionsWatchCommand struct {
	projectionName
}

func (c *projectionsWatchCommand) run(ctx context.Context, e *environment) error {
	return e.withCatalog(ctx, func(s *stores.Stores, catalog *generation.Catalog) error {
		w := rebuildWatch{
			name: c.Name, every: commandPoll, out: e.stdout,
			entry: func(ctx context.Context) (*generation.Entry, error) { return c.entry(ctx, catalog) },
			job:   job.NewStore(s.State, job.Options{Logger: e.logger}).Get,
			bar:   newProgress(e.stderr, c.Name, refold.CountEvents),
		}
		defer w.bar.end()
		return w.run(ctx)
	})
}

// rebuildWatch follows a rebuild. It prints a line for each state and reason, and a bar for
// the running job.
type rebuildWatch struct {
	name  string
	every time.Duration
	out   io.Writer
	bar   *progress
	entry func(ctx context.Context) (*generation.Entry, error)
	job   func(ctx context.Context, id string) (job.Job, error)

	// generation is the one that is being built, 0 before the first look. said is the last
	// line.
	generation int64
	said       string
}

// run returns when the generation is live or never will be. It retries transient errors.
func (w *rebuildWatch) run(ctx context.Context) error {
	for {
		done, err := w.look(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if done || err != nil && !mongox.Transient(err) {
			return err
		}
		if err := backoff.Wait(ctx, w.every); err != nil {
			return err
		}
	}
}

func (w *rebuildWatch) look(ctx context.Context) (done bool, err error) {
	e, err := w.entry(ctx)
	if err != nil {
		return false, err
	}
	b := e.Building
	switch {
	case b == nil && w.generation == 0 && e.Live == nil:
		return true, fmt.Errorf("projection %s builds no generation, and has no live one", w.name)
	case b == nil && w.generation == 0:
		w.say("projection %s builds no generation; generation %d is live", w.name, e.Live.Generation)
		return true, nil
	case b == nil && e.Live != nil && e.Live.Generation >= w.generation:
		w.say("generation %d of projection %s is live", e.Live.Generation, w.name)
		return true, nil
	case b == nil:
		return true, fmt.Errorf("generation %d of projection %s is not built any more: \"projector projections show %s\" has its history", w.generation, w.name, w.name)
	case b.State == generation.Failed:
		return true, fmt.Errorf("generation %d of projection %s has failed: %s", b.Generation, w.name, b.Reason)
	}
	w.generation = b.Generation
	line := fmt.Sprintf("generation %d of projection %s is %s", b.Generation, w.name, b.State)
	if b.Reason != "" {
		line += ": " + b.Reason
	}
	w.say("%s", line)
	return false, w.show(ctx, b)
}

// say prints a line, unless it equals the last one.
func (w *rebuildWatch) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if line == w.said {
		return
	}
	w.bar.end()
	w.said = line
	fmt.Fprintln(w.out, line)
}

// show shows the build's present job, if that has begun.
func (w *rebuildWatch) show(ctx context.Context, b *generation.Build) error {
	id := map[generation.State]string{
		generation.Building: b.Jobs.Build, generation.CatchingUp: b.Jobs.Sweep, generation.Verifying: b.Jobs.Verify,
	}[b.State]
	if id == "" {
		return nil
	}
	j, err := w.job(ctx, id)
	if errors.Is(err, job.ErrNotFound) {
		return nil // the state will say why a moment later
	}
	if err == nil {
		w.bar.show(j)
	}
	return err
}
