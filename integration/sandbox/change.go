package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// operatorPoll is the interval at which the commands that list are run.
const operatorPoll = 500 * time.Millisecond

// RebuildResult is the outcome of the second act for one projection.
type RebuildResult struct {
	Projection string
	Generation int64
	// Took is the time from the new projections file to the live generation.
	Took time.Duration
	// Reads are the results of a reader of the changed collection in this time.
	Reads verify.Reads
	// Falsified is the _id of the document that was falsified; empty if no aggregate of the
	// collection is complete. Found are the findings before the repair, Left those after
	// it.
	Falsified   string
	Found, Left []harness.Finding
}

// exact reports whether the falsified document was found, and nothing else.
func (r *RebuildResult) exact() bool {
	if r.Falsified == "" {
		return len(r.Found) == 0
	}
	return len(r.Found) == 1 && r.Found[0].ID() == r.Falsified && r.Found[0].Kind == "different"
}

// OK reports whether readers saw whole collections of one definition only, and exactly the
// falsified document was found and repaired.
func (r *RebuildResult) OK() bool { return len(r.problems()) == 0 }

// problems returns one sentence for each reason why the second act is not OK.
func (r *RebuildResult) problems() []string {
	var problems []string
	switch {
	case r.Reads.Finding != "":
		problems = append(problems, r.Reads.Finding)
	case !r.Reads.OK():
		problems = append(problems, fmt.Sprintf("a reader of the collection of %s saw %d empty, %d shrunk and %d mixed collections in %d reads",
			r.Projection, r.Reads.Empty, r.Reads.Fewer, r.Reads.Mixed, r.Reads.Total))
	case r.Reads.Changed == 0:
		problems = append(problems, fmt.Sprintf("no reader of the collection of %s saw the new definition", r.Projection))
	}
	if !r.exact() {
		falsified := "nothing was"
		if r.Falsified != "" {
			falsified = r.Falsified + " was"
		}
		problems = append(problems, fmt.Sprintf("%s falsified, and projector verify found: %s", falsified, findings(r.Found)))
	}
	if len(r.Left) > 0 {
		problems = append(problems, "projector verify after --repair: "+findings(r.Left))
	}
	return problems
}

// rebuild runs the second act: the projections change, and then documents are falsified.
func (r *run) rebuild(ctx context.Context) ([]RebuildResult, error) {
	changed := r.opts.Workload.Change.Changed
	results := make([]RebuildResult, len(changed))
	r.monitor.setPhase(phaseRebuilding)
	readers := make(map[string]*verify.Reader, len(changed))
	for i, c := range changed {
		results[i].Projection = c.Projection
		readers[c.Projection] = verify.NewReader(r.models.Collection(c.Collection), c.Field)
	}
	r.monitor.setReaders(readers)

	reading, stop := context.WithCancel(ctx)
	defer stop()
	group, reading := errgroup.WithContext(reading)
	for _, reader := range readers {
		group.Go(func() error { return reader.Run(reading) })
	}
	group.Go(func() error {
		defer stop()
		return r.promote(reading, results)
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}

	r.monitor.setPhase(phaseVerifying)
	for i := range results {
		result := &results[i]
		result.Reads = readers[result.Projection].Reads()
		if err := r.falsify(ctx, changed[i], result); err != nil {
			return nil, err
		}
		if err := r.verify(ctx, result); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// promote replaces the projectors one by one, with the new projections file, and waits
// until all new generations are live.
func (r *run) promote(ctx context.Context, results []RebuildResult) error {
	begun := time.Now()
	if err := r.pipeline.SetProjections(r.opts.Workload.Change.Projections); err != nil {
		return err
	}
	for i := range results {
		r.opts.View.Note(fmt.Sprintf("the projections file has another definition of %s", results[i].Projection))
	}
	for _, process := range r.pipeline.Running() {
		if strings.HasPrefix(process.Name, publisherPrefix) {
			continue
		}
		if err := replace(ctx, r.pipeline, process.Name, r.opts.View.Note); err != nil {
			return err
		}
		r.opts.View.Note("replaced " + process.Name)
	}
	return proc.Await(ctx, operatorPoll, "the new generations", func() (bool, error) {
		states, err := r.look(ctx, results)
		if err != nil {
			return false, err
		}
		live := true
		for i, state := range states {
			result := &results[i]
			switch {
			case state.State == "failed":
				return false, fmt.Errorf("rebuild %s: it failed: %s", result.Projection, state.Building.Reason)
			case state.LiveGeneration() <= generationBefore || state.Building != nil:
				live = false
			case result.Generation == 0:
				result.Generation, result.Took = state.LiveGeneration(), time.Since(begun)
				r.opts.View.Note(fmt.Sprintf("generation %d of %s is live, %s after the new file", result.Generation, result.Projection, result.Took.Round(100*time.Millisecond)))
			}
		}
		return live, nil
	})
}

// generationBefore is the generation of a projection before its first change.
const generationBefore = 1

// look reads the states of the rebuilds by the projector's command, and shows them.
func (r *run) look(ctx context.Context, results []RebuildResult) ([]RebuildStatus, error) {
	projections, err := r.pipeline.Projections(ctx)
	if err != nil {
		return nil, err
	}
	statuses := make([]RebuildStatus, len(results))
	for i := range results {
		at := slices.IndexFunc(projections, func(p harness.ProjectionState) bool { return p.Name == results[i].Projection })
		if at < 0 {
			return nil, fmt.Errorf("rebuild %s: the catalog does not have it", results[i].Projection)
		}
		statuses[i].ProjectionState = projections[at]
	}
	r.monitor.setRebuilds(statuses)
	return statuses, nil
}

// falsify changes a read model whose aggregate has no more events, so that only a repair
// changes it again. A document of a view has no watermark. Later events do not correct its
// totals either.
func (r *run) falsify(ctx context.Context, changed workload.Changed, result *RebuildResult) error {
	collection := r.models.Collection(changed.Collection)
	last := make(map[string]int64)
	for i := range r.opts.Workload.Events {
		last[r.opts.Workload.Events[i].AggregateID] = r.opts.Workload.Events[i].EventID
	}
	cursor, err := collection.Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: "lastEventId", Value: 1}}).SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return fmt.Errorf("find a document to falsify: %w", err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		id, _ := cursor.Current.Lookup("_id").StringValueOK()
		if shown, ok := cursor.Current.Lookup("lastEventId").AsInt64OK(); id == "" || ok && shown != last[id] {
			continue
		}
		if _, err := collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, changed.Falsify); err != nil {
			return fmt.Errorf("falsify %s: %w", id, err)
		}
		result.Falsified = id
		r.opts.View.Note("falsified the document of " + id + " by hand")
		return nil
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("find a document to falsify: %w", err)
	}
	r.opts.View.Note("no document is complete, so none is falsified")
	return nil
}

// verify runs the projector's command three times: it must find the falsified document,
// repair it, and then find nothing.
func (r *run) verify(ctx context.Context, result *RebuildResult) (err error) {
	only := "--projection=" + result.Projection
	if result.Found, err = r.find(ctx, only); err != nil {
		return err
	}
	r.opts.View.Note("projector verify: " + findings(result.Found))
	repaired, err := r.find(ctx, only, "--repair", "--yes", "--why=the document was falsified")
	if err != nil {
		return err
	}
	for _, f := range repaired {
		if f.RepairError != "" {
			r.opts.View.Note(fmt.Sprintf("projector verify --repair: %s not repaired: %s", f.ID(), f.RepairError))
		}
	}
	if result.Left, err = r.find(ctx, only); err != nil {
		return err
	}
	r.opts.View.Note("projector verify after --repair: " + findings(result.Left))
	return nil
}

func (r *run) find(ctx context.Context, flags ...string) ([]harness.Finding, error) {
	// The store is the demo's own, so the command need not spare it.
	verified, err := r.pipeline.Verify(ctx, append(flags, "--refold-rate=0")...)
	if err != nil {
		return nil, err
	}
	var found []harness.Finding
	for _, v := range verified {
		if v.State != "done" {
			return nil, fmt.Errorf("verify %s: the verification is %s: %s", v.Projection, v.State, v.Reason)
		}
		found = append(found, v.Findings...)
	}
	return found, nil
}

// findings describes findings in one line.
func findings(found []harness.Finding) string {
	if len(found) == 0 {
		return "every read model equals the fold of its events"
	}
	const limit = 3
	var texts []string
	for _, f := range found[:min(limit, len(found))] {
		texts = append(texts, f.String())
	}
	if len(found) > limit {
		texts = append(texts, fmt.Sprintf("and %d more", len(found)-limit))
	}
	return strings.Join(texts, "; ")
}
