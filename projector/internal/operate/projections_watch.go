package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

type projectionsWatchCommand struct {
	Name      string        `arg:"" optional:"" help:"The projection; it can be left out with --until-live."`
	UntilLive bool          `name:"until-live" help:"Wait until the declared definition of the projection, or of all declared projections, is live. Exits with status 1 if a build fails, is cancelled or waits for a person."`
	Timeout   time.Duration `name:"timeout" default:"15m" help:"Longest time to wait with --until-live."`
}

// Validate checks the flags. kong calls it.
func (c *projectionsWatchCommand) Validate() error {
	switch {
	case c.Name == "" && !c.UntilLive:
		return errors.New("no projection: name one, or use --until-live for all declared ones")
	case c.Timeout <= 0:
		return fmt.Errorf("--timeout is %s: use more than 0", c.Timeout)
	}
	return nil
}

func (c *projectionsWatchCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	if c.UntilLive {
		return c.awaitLive(ctx, e, s)
	}
	w := Watch{
		Name: c.Name, Every: commandPoll, Out: e.stdout, Bars: e.stderr, Terminal: cli.IsTerminal(e.stderr),
		Entry: func(ctx context.Context) (*catalog.Entry, error) { return projectionName{c.Name}.entry(ctx, s) },
		Job:   s.jobs.Get,
	}
	return w.Run(ctx)
}

// Watch follows a rebuild. It prints a line for each state and reason, and a bar for the
// running job.
type Watch struct {
	// Name is the name of the projection.
	Name  string
	Every time.Duration
	// Out gets the lines, and Bars the bars.
	Out, Bars io.Writer
	// Terminal is whether Bars is a terminal.
	Terminal bool
	Entry    func(ctx context.Context) (*catalog.Entry, error)
	Job      func(ctx context.Context, id string) (job.Job, error)

	bar *progress
	// generation is the one that is being built, 0 before the first look. said is the last
	// line.
	generation int64
	said       string
}

// Run returns when the generation is live or never will be. It retries transient errors.
func (w *Watch) Run(ctx context.Context) error {
	w.bar = newProgress(w.Bars, w.Terminal, w.Name, history.CountEvents)
	defer w.bar.end()
	for {
		done, err := w.look(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if done || err != nil && !mongox.Transient(err) {
			return err
		}
		if err := poll.Wait(ctx, w.Every); err != nil {
			return err
		}
	}
}

func (w *Watch) look(ctx context.Context) (done bool, err error) {
	e, err := w.Entry(ctx)
	if err != nil {
		return false, err
	}
	b := e.Building
	switch {
	case b == nil && w.generation == 0 && e.Live == nil:
		return true, fmt.Errorf("projection %s builds no generation, and has no live one", w.Name)
	case b == nil && w.generation == 0:
		w.say("projection %s builds no generation; generation %d is live", w.Name, e.Live.Generation)
		return true, nil
	case b == nil && e.Live != nil && e.Live.Generation >= w.generation:
		w.say("generation %d of projection %s is live", e.Live.Generation, w.Name)
		return true, nil
	case b == nil:
		return true, fmt.Errorf("generation %d of projection %s is not built any more: \"projector projections show %s\" has its history", w.generation, w.Name, w.Name)
	case b.State == catalog.Failed:
		return true, fmt.Errorf("generation %d of projection %s has failed: %s", b.Generation, w.Name, b.Reason)
	}
	w.generation = b.Generation
	line := fmt.Sprintf("generation %d of projection %s is %s", b.Generation, w.Name, b.State)
	if b.Reason != "" {
		line += ": " + b.Reason
	}
	w.say("%s", line)
	return false, w.show(ctx, b)
}

// say prints a line, unless it equals the last one.
func (w *Watch) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if line == w.said {
		return
	}
	w.bar.end()
	w.said = line
	fmt.Fprintln(w.Out, line)
}

// show shows the build's present job, if that has begun, or again what the build waits for.
func (w *Watch) show(ctx context.Context, b *catalog.Build) error {
	id := map[catalog.State]string{
		catalog.Building: b.Jobs.Build, catalog.CatchingUp: b.Jobs.Sweep, catalog.Verifying: b.Jobs.Verify,
	}[b.State]
	j, err := job.Job{State: job.Done}, error(nil)
	if id != "" {
		j, err = w.Job(ctx, id)
	}
	switch {
	case errors.Is(err, job.ErrNotFound):
		return nil // the state will say why a moment later
	case err != nil:
		return err
	case b.Reason != "" && j.State == job.Done:
		w.bar.repeat(w.said)
	case id != "":
		w.bar.show(j)
	}
	return nil
}
