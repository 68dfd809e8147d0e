package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// jobsCommands are the commands about jobs.
type jobsCommands struct {
	List   jobsListCommand   `cmd:"" help:"List jobs, the newest first; with --output=json, everything about each."`
	Cancel jobsCancelCommand `cmd:"" help:"Cancel a job. A rebuild whose job is cancelled fails, and the live read model stays."`
}

type jobsListCommand struct {
	cli.Output
	Projection string `name:"projection" placeholder:"NAME" help:"Only jobs of this projection."`
	Kind       string `name:"kind" placeholder:"KIND" help:"Only jobs of this kind: build, sweep, verify or reconcile."`
	State      string `name:"state" placeholder:"STATE" help:"Only jobs in this state: planning, running, done, failed or cancelled."`
}

// Validate checks the flags. kong calls it.
func (c *jobsListCommand) Validate() error {
	var p cli.Problems
	p.Require(c.Kind == "" || slices.Contains(job.Kinds(), job.Kind(c.Kind)), "--kind is %q, unknown: use one of %s", c.Kind, cli.Words(job.Kinds()))
	p.Require(c.State == "" || slices.Contains(job.States(), job.State(c.State)), "--state is %q, unknown: use one of %s", c.State, cli.Words(job.States()))
	return errors.Join(p...)
}

func (c *jobsListCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	var filter job.Filter
	if c.Projection != "" {
		filter.Projections = []string{c.Projection}
	}
	if c.Kind != "" {
		filter.Kinds = []job.Kind{job.Kind(c.Kind)}
	}
	if c.State != "" {
		filter.States = []job.State{job.State(c.State)}
	}
	found, err := s.jobs.List(ctx, filter)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		fmt.Fprintln(e.stderr, "no jobs")
	}
	now := time.Now()
	return cli.List(e.stdout, c.Output, found, func(j job.Job) []cli.Field {
		return []cli.Field{
			{Name: "id", Text: j.ID},
			{Name: "kind", Text: string(j.Kind)},
			{Name: "projection", Text: j.Projection},
			{Name: "generation", Text: fmt.Sprint(j.Generation)},
			{Name: "state", Text: string(j.State)},
			{Name: "ranges", Text: ranges(j)},
			{Name: "counts", Text: counts(j)},
			{Name: "age", Text: cli.Age(now, j.Created)},
			{Name: "reason", Text: j.Reason},
		}
	})
}

// ranges formats how many of the job's ranges are finished.
func ranges(j job.Job) string {
	if j.Ranges == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", j.RangesDone, j.Ranges)
}

// counts formats the numbers of a job's work.
func counts(j job.Job) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(j.Counts)) {
		texts = append(texts, counted(j.Counts[name], name))
	}
	return strings.Join(texts, ", ")
}

type jobsCancelCommand struct {
	ID string `arg:"" name:"id" help:"The job's id, as jobs list shows it."`
	cli.Change
}

func (c *jobsCancelCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	before, err := s.jobs.Get(ctx, c.ID)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return fmt.Errorf("%w; \"projector jobs list\" lists them", err)
	case err != nil:
		return err
	}
	what := fmt.Sprintf("cancel job %s, a %s of projection %s, generation %d, which is %s", c.ID, before.Kind, before.Projection, before.Generation, before.State)
	return s.change(ctx, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
		after, err := s.jobs.Cancel(ctx, c.ID, by(c.Change))
		if err == nil {
			fmt.Fprintf(e.stdout, "job %s is %s\n", after.ID, after.State)
		}
		return nil, err
	})
}

// by formats the reason that a job shows: who changed it, and why.
func by(c cli.Change) string {
	text := "by " + c.Person()
	if c.Why != "" {
		text += ": " + c.Why
	}
	return text
}
