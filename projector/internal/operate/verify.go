package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// verifyCommand compares read models with the fold of their events.
type verifyCommand struct {
	cli.Output
	cli.Change
	Projection []string      `name:"projection" placeholder:"NAME" help:"Only these projections; the default is all that PENSTOCK_PROJECTIONS declares, or all of the catalog if it is not set."`
	Aggregate  string        `name:"aggregate" placeholder:"ID" help:"Only this aggregate."`
	Sample     string        `name:"sample" default:"100%" placeholder:"SHARE" help:"Only a share of the aggregates, such as 1%. It is the same share each time."`
	Repair     bool          `name:"repair" help:"Correct the read models that are wrong. A document whose events are missing in the event store is not deleted."`
	Grace      time.Duration `name:"grace" default:"30s" help:"How long a read model may be behind the last event."`
	Limit      int           `name:"limit" default:"100" help:"How many findings to print; 1000 of each projection are kept."`
}

func (*verifyCommand) needs() config.Part {
	return config.PartMongoDB | config.PartFields | config.PartHistory
}

// Validate checks the flags. kong calls it.
func (c *verifyCommand) Validate() error {
	_, err := c.share()
	p := cli.Problems{err}
	p.Require(c.Grace >= time.Second && c.Grace <= time.Hour, "--grace is %v: use 1s to 1h", c.Grace)
	p.Require(c.Limit >= 1, "--limit is %d: use at least 1", c.Limit)
	return errors.Join(p...)
}

// share parses the sample: 1% or 0.01.
func (c *verifyCommand) share() (float64, error) {
	text, percent := strings.CutSuffix(c.Sample, "%")
	share, err := strconv.ParseFloat(text, 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share > 0 && share <= 1) {
		return 0, fmt.Errorf("--sample is %q: use more than 0%% and at most 100%%, such as 1%%", c.Sample)
	}
	return share, nil
}

// verified is the result for one projection.
type verified struct {
	Projection string           `json:"projection"`
	Generation int64            `json:"generation"`
	Job        string           `json:"job"`
	State      job.State        `json:"state"`
	Reason     string           `json:"reason,omitempty"`
	Counts     map[string]int64 `json:"counts"`
	// Findings are the first findings of the job.
	Findings []history.Finding `json:"findings"`
}

func (c *verifyCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	declared, err := load(e.Config.Projections.Path, e.inCode)
	if err != nil {
		return e.refuseProjections(err)
	}
	entries, err := s.entries(ctx)
	if err != nil {
		return err
	}
	d := newCommandDefinitions(s.Stores, e.Config, declared)
	asked := c.Projection
	if len(asked) == 0 {
		if asked, err = e.verifiable(declared, entries); err != nil {
			return err
		}
	}
	var targets []verified
	var names []string
	for _, name := range asked {
		number, err := d.live(ctx, name)
		if err == nil {
			// The job would wait for a pod with the code, and maybe there is none.
			if _, missing := d.target(ctx, name, number); errors.Is(missing, job.ErrNotHere) {
				err = missing
			}
		}
		if (errors.Is(err, errNotLive) || errors.Is(err, job.ErrNotHere)) && len(c.Projection) == 0 {
			fmt.Fprintf(e.stderr, "not verified: %v\n", err)
			continue
		}
		if err != nil {
			return err
		}
		targets, names = append(targets, verified{Projection: name, Generation: number}), append(names, name)
		if e := entries[name]; e != nil && e.Live != nil {
			if err := s.checkReadModels(ctx, e); err != nil {
				return err
			}
		}
	}
	if len(targets) == 0 {
		return errors.Join(c.print(e, []verified{}), cli.ErrFindings)
	}
	var results []verified
	verifyAll := func(ctx context.Context) (_ map[string]int64, err error) {
		results, err = c.verify(ctx, e, s, d, targets)
		counts := map[string]int64{}
		for _, r := range results {
			counts["wrong"] += history.Wrong(r.Counts)
			counts[history.CountRepaired] += r.Counts[history.CountRepaired]
		}
		return counts, err
	}
	if c.Repair {
		what := fmt.Sprintf("verify %s and repair each read model that is wrong", strings.Join(names, ", "))
		if c.Aggregate != "" {
			what = fmt.Sprintf("verify aggregate %q of %s and repair its read model if that is wrong", c.Aggregate, strings.Join(names, ", "))
		}
		err = s.change(ctx, c.Change, what, verifyAll)
	} else {
		_, err = verifyAll(ctx)
	}
	if err != nil {
		return err
	}
	return c.print(e, results)
}

// verifiable returns the names of the projections of PENSTOCK_PROJECTIONS if that is set,
// otherwise of those in the catalog.
func (e *Environment) verifiable(declared []*projection.Projection, entries map[string]*catalog.Entry) (names []string, err error) {
	if e.Config.Projections.Path != "" {
		for _, p := range declared {
			names = append(names, p.Name())
		}
		return names, nil
	}
	all, err := e.liveFoldables(entries, nil)
	if err == nil {
		all, err = chooseFoldables(all, nil)
	}
	for _, p := range all {
		names = append(names, p.Name())
	}
	return names, err
}

// commandParallel is how many ranges a command works on concurrently.
const commandParallel = 4

// verify runs one job for each projection. This process and every other one that runs jobs
// of the kind work on it.
func (c *verifyCommand) verify(ctx context.Context, e *Environment, s *stored, d *definitions, targets []verified) (results []verified, err error) {
	findings := history.NewFindingStore(s.State)
	jobs := job.NewStore(s.State, job.Options{Logger: e.Logger, Pruned: findings.Delete})
	if err := errors.Join(job.Prepare(ctx, s.State), findings.Prepare(ctx)); err != nil {
		return nil, err
	}
	err = e.withReadModels(ctx, s, func(store history.Store) error {
		worker := newVerifier(e.Config, s.Stores, d, store, s.parked, e.Logger)
		for _, target := range targets {
			r, err := c.verifyLive(ctx, e, jobs, worker, d, target)
			if err != nil {
				return err
			}
			if r.Findings, err = findings.List(ctx, r.Job, c.Limit); err != nil {
				return err
			}
			if r.Counts, err = findings.Recount(ctx, r.Job, r.Counts); err != nil {
				return err
			}
			results = append(results, r)
		}
		return nil
	})
	return results, err
}

// cancelTimeout bounds cancelling the job after the command was interrupted.
const cancelTimeout = 2 * time.Second

// verifyLive verifies the live generation of one projection. If another generation has become
// live meanwhile, it verifies that one.
func (c *verifyCommand) verifyLive(ctx context.Context, e *Environment, jobs *job.Store, worker job.Worker, d *definitions, target verified) (verified, error) {
	for {
		r, err := c.verifyOne(ctx, e, jobs, worker, target)
		if err != nil || r.State != job.Failed {
			return r, err
		}
		number, err := d.live(ctx, target.Projection)
		if err != nil || number == target.Generation {
			return r, nil //nolint:nilerr // the reason of the job says why it has failed
		}
		fmt.Fprintf(e.stderr, "generation %d of projection %s has become live meanwhile, and is verified instead of generation %d\n", number, target.Projection, target.Generation)
		target.Generation = number
	}
}

// verifyOne runs the job of one projection.
func (c *verifyCommand) verifyOne(ctx context.Context, e *Environment, jobs *job.Store, worker job.Worker, target verified) (verified, error) {
	share, err := c.share()
	if err != nil {
		return verified{}, err
	}
	params, err := bson.Marshal(history.Params{Sample: share, Aggregate: c.Aggregate, Repair: c.Repair, GraceMillis: c.Grace.Milliseconds()})
	if err != nil {
		return verified{}, fmt.Errorf("encode the parameters of the job: %w", err)
	}
	created, err := jobs.Create(ctx, job.Job{Kind: job.Verify, Projection: target.Projection, Generation: target.Generation, Params: params, Who: c.Person(), Why: c.Why})
	if err != nil {
		return verified{}, err
	}
	working, stop := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error {
		return job.NewRunner(job.RunnerOptions{
			Jobs: jobs, Workers: map[job.Kind]job.Worker{job.Verify: refusable{worker}}, Holder: c.Person() + "/" + created.ID,
			Parallel: commandParallel, Only: created.ID, Poll: commandPoll, Logger: e.Logger,
		}).Run(working)
	})
	bar := newProgress(e.stderr, cli.IsTerminal(e.stderr), target.Projection, history.CountEvents)
	ended, err := jobs.Await(ctx, created.ID, commandPoll, bar.show)
	bar.end()
	stop()
	err = errors.Join(err, group.Wait())
	if ctx.Err() != nil {
		// The command was interrupted, so no one waits for the result.
		cancelling, cancel := mongox.Timeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		if _, err := jobs.Cancel(cancelling, created.ID, "the command was interrupted"); err != nil {
			e.Logger.Warn().Err(err).Str("job", created.ID).Msg("job not cancelled; run \"projector jobs cancel\" for it")
		}
		return verified{}, context.Cause(ctx)
	}
	if err != nil {
		return verified{}, err
	}
	target.Job, target.State, target.Reason, target.Counts, target.Findings = ended.ID, ended.State, ended.Reason, ended.Counts, []history.Finding{}
	return target, nil
}

// refusable is a worker whose job fails if MongoDB refuses a right. A service would wait for the
// right, but a person waits for the command.
type refusable struct{ job.Worker }

func (w refusable) Plan(ctx context.Context, j job.Job) ([]bson.Raw, int64, error) {
	ranges, total, err := w.Worker.Plan(ctx, j)
	return ranges, total, finalIfRefused(err)
}

func (w refusable) Work(ctx context.Context, j job.Job, r job.Range, p job.Progress) error {
	return finalIfRefused(w.Worker.Work(ctx, j, r, p))
}

func finalIfRefused(err error) error {
	if mongox.AccessRefused(err) {
		return job.Permanent(err)
	}
	return err
}

// commandPoll is how often a command looks for a range of work, and for the end of its job.
const commandPoll = 200 * time.Millisecond

// print prints the results. It returns [cli.ErrFindings] if a read model is or was wrong, if
// there is no such aggregate, or if a job did not end.
func (c *verifyCommand) print(e *Environment, results []verified) error {
	var wrong error
	var findings []history.Finding
	for _, r := range results {
		findings = append(findings, r.Findings...)
		if history.Wrong(r.Counts) > 0 || r.Counts[history.CountUnknown] > 0 || r.State != job.Done {
			wrong = cli.ErrFindings
		}
	}
	if c.JSON() {
		return errors.Join(cli.PrintJSON(e.stdout, results), wrong)
	}
	err := cli.List(e.stdout, c.Output, findings, func(f history.Finding) []cli.Field {
		wrong := f.AggregateID
		if f.Document != "" {
			wrong = "document " + f.Document
		}
		return []cli.Field{
			{Name: "projection", Text: f.Projection},
			{Name: "aggregate", Text: wrong},
			{Name: "finding", Text: string(f.Kind)},
			{Name: "watermark", Text: fmt.Sprint(f.Watermark)},
			{Name: "head", Text: fmt.Sprint(f.Head)},
			{Name: "repaired", Text: repaired(f)},
			{Name: "detail", Text: detail(f)},
		}
	})
	for _, r := range results {
		fmt.Fprintln(e.stdout, c.summary(r))
	}
	return errors.Join(err, wrong)
}

// repaired describes the outcome of a finding.
func repaired(f history.Finding) string {
	switch {
	case f.Repaired:
		return "yes"
	case f.RepairError != "":
		return "no: " + f.RepairError
	}
	return ""
}

// detail returns the first difference, or the finding's own text if there is none.
func detail(f history.Finding) string {
	if len(f.Differences) == 0 {
		return f.Detail
	}
	d := f.Differences[0]
	text := fmt.Sprintf("%s is %s, must be %s", d.Path, orNothing(d.Have), orNothing(d.Want))
	if d.Have == d.Want {
		text = fmt.Sprintf("%s has another value (%s)", d.Path, d.Have)
	}
	if more := len(f.Differences) - 1 + f.More; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

func orNothing(kind string) string { return cmp.Or(kind, "absent") }

// summary returns the last line for a projection.
func (c *verifyCommand) summary(r verified) string {
	if r.State != job.Done {
		return fmt.Sprintf("%s, generation %d: the verification is %s: %s", r.Projection, r.Generation, r.State, r.Reason)
	}
	text := fmt.Sprintf("%s, generation %d: %s", r.Projection, r.Generation, cli.Count(r.Counts[history.CountAggregates], "aggregate"))
	// The verification of one aggregate counts no events.
	if n, counted := r.Counts[history.CountEvents]; counted {
		text += ", " + cli.Count(n, "event")
	}
	switch {
	case r.Counts[history.CountUnknown] > 0:
		return fmt.Sprintf("%s, generation %d: neither the event store nor the read models have such an aggregate, or it was erased", r.Projection, r.Generation)
	case history.Wrong(r.Counts) > 0:
	case r.Counts[history.CountAggregates] == 0:
		text += ": nothing to compare"
	case r.Counts[history.CountUnreadable] > 0:
		text += ": every read model equals the fold of its readable events"
	default:
		text += ": every read model equals the fold of its events"
	}
	for _, kind := range history.Kinds() {
		if n := r.Counts[string(kind)]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, kind)
		}
	}
	if n := r.Counts[history.CountRepaired]; n > 0 {
		text += fmt.Sprintf(", %d of them repaired", n)
	}
	if n := r.Counts[history.CountUnreadable]; n > 0 {
		of := "the event store"
		if c.Aggregate != "" {
			of = "this aggregate"
		}
		text += fmt.Sprintf("; no read model has %s of %s that %s the contract: see publisher quarantine list", cli.Count(n, "event"), of, map[bool]string{true: "breaks", false: "break"}[n == 1])
	}
	return text
}

// wrongReadModels is the name of the condition of [WrongConditions].
const wrongReadModels = "wrong-read-models"

// WrongConditions says which live generations have read models that a verification has found wrong
// and has not repaired, given the verifications that are done. A later verification of the same
// aggregates, or of all, replaces an earlier one.
func WrongConditions(verifications []job.Job, entries map[string]*catalog.Entry) []health.Condition {
	type part struct {
		projection, aggregate string
		sample                float64
	}
	replaced := map[part]bool{}
	var found []health.Condition
	for _, j := range slices.SortedFunc(slices.Values(verifications), func(a, b job.Job) int { return b.Created.Compare(a.Created) }) {
		e := entries[j.Projection]
		if e == nil || e.RetiredAt != nil || e.Live == nil || e.Live.Generation != j.Generation {
			continue
		}
		var p history.Params
		_ = bson.Unmarshal(j.Params, &p) // the zero value is that of all aggregates
		if p.Aggregate != "" && !strings.HasPrefix(p.Aggregate, hashPrefix) {
			p.Aggregate = hashed(p.Aggregate) // as an erasure leaves it
		}
		all, of := part{j.Projection, "", 1}, part{j.Projection, p.Aggregate, cmp.Or(p.Sample, 1)}
		if replaced[all] || replaced[of] {
			continue
		}
		replaced[of] = true
		if wrong := history.Wrong(j.Counts) - j.Counts[history.CountRepaired]; wrong > 0 {
			found = append(found, health.Condition{
				Name: wrongReadModels, Subject: j.Projection, State: health.Degraded, Since: j.Finished,
				Text:   fmt.Sprintf("verification %s has left %s wrong", j.ID, cli.Count(wrong, "read model")),
				Remedy: fmt.Sprintf("\"projector verify --projection %s --repair\" compares all again and repairs them. It deletes nothing: look at those of kind extra by hand. A verification of the same aggregates, or of all, that leaves none wrong ends the condition.", j.Projection),
			})
		}
	}
	return found
}
