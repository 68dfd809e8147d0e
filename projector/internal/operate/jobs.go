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
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/stores"
)

// jobsCommands are the commands about jobs.
type jobsCommands struct {
	List   jobsListCommand   `cmd:"" help:"List jobs, the newest first."`
	Show   jobsShowCommand   `cmd:"" help:"Show everything about one job."`
	Pause  jobsPauseCommand  `cmd:"" help:"Stop the work on a job until it is resumed. Its progress is kept."`
	Resume jobsResumeCommand `cmd:"" help:"Continue a job that is paused or has failed, from its saved progress."`
	Cancel jobsCancelCommand `cmd:"" help:"Cancel a job. It cannot be resumed. A rebuild whose job is cancelled fails, and the live read model stays."`
}

// jobView is a job as the commands print it.
type jobView struct {
	ID         string           `json:"id"`
	Kind       job.Kind         `json:"kind"`
	Projection string           `json:"projection"`
	Generation int64            `json:"generation"`
	State      job.State        `json:"state"`
	Reason     string           `json:"reason,omitempty"`
	Who        string           `json:"who,omitempty"`
	Why        string           `json:"why,omitempty"`
	Created    time.Time        `json:"createdAt"`
	Started    *time.Time       `json:"startedAt,omitempty"`
	Progressed *time.Time       `json:"progressedAt,omitempty"`
	Finished   *time.Time       `json:"finishedAt,omitempty"`
	Ranges     int              `json:"ranges"`
	RangesDone int              `json:"rangesDone"`
	Total      int64            `json:"total"`
	Counts     map[string]int64 `json:"counts,omitempty"`
}

func viewJob(j job.Job) jobView {
	optional := func(at time.Time) *time.Time {
		if at.IsZero() {
			return nil
		}
		return &at
	}
	return jobView{
		ID: j.ID, Kind: j.Kind, Projection: j.Projection, Generation: j.Generation, State: j.State, Reason: j.Reason,
		Who: j.Who, Why: j.Why, Created: j.Created, Started: optional(j.Started), Progressed: optional(j.Progressed),
		Finished: optional(j.Finished), Ranges: j.Ranges, RangesDone: j.RangesDone, Total: j.Total, Counts: j.Counts,
	}
}

// withJobs calls do with the job store.
func (e *Environment) withJobs(ctx context.Context, do func(s *stores.Stores, jobs *job.Store) error) error {
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	return do(s, job.NewStore(s.State, job.Options{Logger: e.Logger}))
}

type jobsListCommand struct {
	cli.Output
	Projection string `name:"projection" placeholder:"NAME" help:"Only jobs of this projection."`
	Kind       string `name:"kind" placeholder:"KIND" help:"Only jobs of this kind: build, sweep, verify or reconcile."`
	State      string `name:"state" placeholder:"STATE" help:"Only jobs in this state: planning, running, paused, done, failed or cancelled."`
}

// Validate implements [cli.Validator].
func (c *jobsListCommand) Validate() error {
	var problems []error
	if c.Kind != "" && !slices.Contains(job.Kinds(), job.Kind(c.Kind)) {
		problems = append(problems, fmt.Errorf("--kind is %q, unknown: use one of %s", c.Kind, join(job.Kinds())))
	}
	if c.State != "" && !slices.Contains(job.States(), job.State(c.State)) {
		problems = append(problems, fmt.Errorf("--state is %q, unknown: use one of %s", c.State, join(job.States())))
	}
	return errors.Join(problems...)
}

// join lists words.
func join[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

func (*jobsListCommand) needs() config.Part { return config.PartMongoDB }

func (c *jobsListCommand) run(ctx context.Context, e *Environment) error {
	return e.withJobs(ctx, func(_ *stores.Stores, jobs *job.Store) error {
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
		found, err := jobs.List(ctx, filter)
		if err != nil {
			return err
		}
		views := make([]jobView, len(found))
		for i, j := range found {
			views[i] = viewJob(j)
		}
		if len(views) == 0 {
			fmt.Fprintln(e.stderr, "no jobs")
		}
		now := time.Now()
		return cli.List(e.stdout, c.Output, views,
			cli.Column[jobView]{Name: "id", Text: func(j jobView) string { return j.ID }},
			cli.Column[jobView]{Name: "kind", Text: func(j jobView) string { return string(j.Kind) }},
			cli.Column[jobView]{Name: "projection", Text: func(j jobView) string { return j.Projection }},
			cli.Column[jobView]{Name: "generation", Text: func(j jobView) string { return fmt.Sprint(j.Generation) }},
			cli.Column[jobView]{Name: "state", Text: func(j jobView) string { return string(j.State) }},
			cli.Column[jobView]{Name: "ranges", Text: ranges},
			cli.Column[jobView]{Name: "counts", Text: counts},
			cli.Column[jobView]{Name: "age", Text: func(j jobView) string { return cli.Age(now, j.Created) }},
			cli.Column[jobView]{Name: "reason", Text: func(j jobView) string { return j.Reason }},
		)
	})
}

// ranges formats how many of the job's ranges are finished.
func ranges(j jobView) string {
	if j.Ranges == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", j.RangesDone, j.Ranges)
}

// counts formats the numbers of a job's work.
func counts(j jobView) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(j.Counts)) {
		texts = append(texts, counted(j.Counts[name], name))
	}
	return strings.Join(texts, ", ")
}

// jobID is the argument of the commands about one job.
type jobID struct {
	ID string `arg:"" name:"id" help:"The job's id, as jobs list shows it."`
}

func (jobID) needs() config.Part { return config.PartMongoDB }

// explain adds the remedy to an error about the job.
func (c jobID) explain(err error) error {
	if errors.Is(err, job.ErrNotFound) {
		return fmt.Errorf("%w; \"projector jobs list\" lists them", err)
	}
	return err
}

type jobsShowCommand struct {
	jobID
	cli.Output
}

func (c *jobsShowCommand) run(ctx context.Context, e *Environment) error {
	return e.withJobs(ctx, func(_ *stores.Stores, jobs *job.Store) error {
		j, err := jobs.Get(ctx, c.ID)
		if err != nil {
			return c.explain(err)
		}
		return cli.Show(e.stdout, c.Output, viewJob(j),
			cli.Column[jobView]{Name: "id", Text: func(j jobView) string { return j.ID }},
			cli.Column[jobView]{Name: "kind", Text: func(j jobView) string { return string(j.Kind) }},
			cli.Column[jobView]{Name: "projection", Text: func(j jobView) string { return j.Projection }},
			cli.Column[jobView]{Name: "generation", Text: func(j jobView) string { return fmt.Sprint(j.Generation) }},
			cli.Column[jobView]{Name: "state", Text: func(j jobView) string { return string(j.State) }},
			cli.Column[jobView]{Name: "reason", Text: func(j jobView) string { return j.Reason }},
			cli.Column[jobView]{Name: "ranges finished", Text: ranges},
			cli.Column[jobView]{Name: "planned amount", Text: func(j jobView) string { return optionalCount(int(j.Total)) }},
			cli.Column[jobView]{Name: "counts", Text: counts},
			cli.Column[jobView]{Name: "created at", Text: func(j jobView) string { return cli.Time(j.Created) }},
			cli.Column[jobView]{Name: "started at", Text: func(j jobView) string { return optionalTime(j.Started) }},
			cli.Column[jobView]{Name: "last progress at", Text: func(j jobView) string { return optionalTime(j.Progressed) }},
			cli.Column[jobView]{Name: "finished at", Text: func(j jobView) string { return optionalTime(j.Finished) }},
			cli.Column[jobView]{Name: "who", Text: func(j jobView) string { return j.Who }},
			cli.Column[jobView]{Name: "why", Text: func(j jobView) string { return j.Why }},
		)
	})
}

// changeJob asks for confirmation, changes a job and prints its state.
func (c jobID) changeJob(ctx context.Context, e *Environment, change cli.Change, verb string, do func(context.Context, *job.Store) (job.Job, error)) error {
	return e.withJobs(ctx, func(s *stores.Stores, jobs *job.Store) error {
		before, err := jobs.Get(ctx, c.ID)
		if err != nil {
			return c.explain(err)
		}
		what := fmt.Sprintf("%s job %s, a %s of projection %s, generation %d, which is %s", verb, c.ID, before.Kind, before.Projection, before.Generation, before.State)
		var after job.Job
		err = e.change(ctx, s, change, what, func(ctx context.Context) (map[string]int64, error) {
			var err error
			after, err = do(ctx, jobs)
			return nil, err
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "job %s is %s\n", after.ID, after.State)
		return nil
	})
}

type jobsPauseCommand struct {
	jobID
	cli.Change
}

func (c *jobsPauseCommand) run(ctx context.Context, e *Environment) error {
	return c.changeJob(ctx, e, c.Change, "pause", func(ctx context.Context, jobs *job.Store) (job.Job, error) {
		return jobs.Pause(ctx, c.ID, by(c.Change))
	})
}

type jobsResumeCommand struct {
	jobID
	cli.Change
}

func (c *jobsResumeCommand) run(ctx context.Context, e *Environment) error {
	return c.changeJob(ctx, e, c.Change, "resume", func(ctx context.Context, jobs *job.Store) (job.Job, error) {
		return jobs.Resume(ctx, c.ID)
	})
}

type jobsCancelCommand struct {
	jobID
	cli.Change
}

func (c *jobsCancelCommand) run(ctx context.Context, e *Environment) error {
	return c.changeJob(ctx, e, c.Change, "cancel", func(ctx context.Context, jobs *job.Store) (job.Job, error) {
		return jobs.Cancel(ctx, c.ID, by(c.Change))
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
