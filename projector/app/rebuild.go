package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/ownership"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
	"github.com/penstock-cdc/penstock/projector/internal/rebuild"
	"github.com/penstock-cdc/penstock/projector/internal/shadow"
	"github.com/penstock-cdc/penstock/projector/internal/verify"
)

// verifyGrace is how long a read model may be behind the event store before a verification
// reports it. Events need that time to come over the topic.
const verifyGrace = 30 * time.Second

// rebuildJobs adapts the job store to the coordinator.
type rebuildJobs struct {
	store  *job.Store
	sample float64
}

var _ rebuild.Jobs = rebuildJobs{}

var jobKinds = map[rebuild.JobKind]job.Kind{rebuild.JobBuild: job.Build, rebuild.JobSweep: job.Sweep, rebuild.JobVerify: job.Verify}

// Ensure creates a job. If a job has the id, it stays unchanged.
func (j rebuildJobs) Ensure(ctx context.Context, spec rebuild.JobSpec) error {
	created := job.Job{ID: spec.ID, Kind: jobKinds[spec.Kind], Projection: spec.Projection, Generation: spec.Generation, Who: spec.Who, Why: spec.Why}
	if spec.Kind == rebuild.JobVerify {
		params, err := bson.Marshal(verify.Params{Sample: j.sample, Repair: spec.Repair, GraceMillis: verifyGrace.Milliseconds()})
		if err != nil {
			return fmt.Errorf("encode the parameters of job %s: %w", spec.ID, err)
		}
		created.Params = params
	}
	_, err := j.store.Create(ctx, created)
	if errors.Is(err, job.ErrExists) {
		return nil
	}
	return err
}

// State returns the state of a job.
func (j rebuildJobs) State(ctx context.Context, id string) (rebuild.JobState, error) {
	found, err := j.store.Get(ctx, id)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return rebuild.JobState{Failed: true, Reason: "the job was deleted"}, nil
	case err != nil:
		return rebuild.JobState{}, err
	}
	state := rebuild.JobState{
		Done: found.State == job.Done, Failed: found.State == job.Failed || found.State == job.Cancelled,
		Reason: found.Reason, Findings: verify.Wrong(found.Counts), Undelivered: found.Counts[verify.CountUndelivered],
	}
	if found.State == job.Paused {
		state.Reason = fmt.Sprintf("job %s is paused: resume it with projector jobs resume %s", id, id)
	}
	return state, nil
}

// Cancel ends a job that has not ended.
func (j rebuildJobs) Cancel(ctx context.Context, id, reason string) error {
	_, err := j.store.Cancel(ctx, id, reason)
	if errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrState) {
		return nil
	}
	return err
}

// rebuildCollections are the collections of the read models.
type rebuildCollections struct {
	*shadow.Store
	readModels *mongo.Database
	logger     zerolog.Logger
}

var _ rebuild.Collections = rebuildCollections{}

// Prepare gives the shadow collection the layout of the collection like, unless read models
// could not exist with it. It logs what the shadow cannot get.
func (c rebuildCollections) Prepare(ctx context.Context, made, like string) (bson.Binary, error) {
	if err := readmodel.CheckModel(ctx, c.readModels, like); err != nil {
		return bson.Binary{}, err
	}
	search, err := readmodel.SearchIndexes(ctx, c.readModels, like)
	if err != nil || len(search) > 0 {
		c.logger.Warn().Err(err).Str("collection", like).Str("newCollection", made).Strs("searchIndexes", search).
			Msg("search indexes are not copied to the new generation: create them again when it is live")
	}
	return c.Store.Prepare(ctx, made, like)
}

// removeTimeout bounds one step of removing a generation's data, because the coordinator
// must renew its lease between the steps.
const removeTimeout = 2 * time.Second

// rebuildData accesses the side watermarks and the markers.
type rebuildData struct {
	readModels *mongo.Database
	parked     *park.Store
	events     *eventstore.Reader
}

var _ rebuild.Data = rebuildData{}

// Remove removes data of a generation for up to removeTimeout, and reports whether none is
// left.
func (d rebuildData) Remove(ctx context.Context, projection string, generation int64) (bool, error) {
	attempt, cancel := mongox.Timeout(ctx, removeTimeout)
	defer cancel()
	_, err := readmodel.Forget(attempt, d.readModels, projection, generation)
	if err == nil {
		_, err = d.parked.Forget(attempt, park.Served{Projection: projection, Generation: generation})
	}
	if err != nil && ctx.Err() == nil && attempt.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

// Parked counts the parked aggregates of a generation, and describes the one that was
// parked first.
func (d rebuildData) Parked(ctx context.Context, projection string, generation int64) (n int64, example string, err error) {
	filter := park.Filter{Projection: projection, Generation: generation}
	if n, err = d.parked.Matching(ctx, filter); n == 0 || err != nil {
		return n, "", err
	}
	oldest, err := d.parked.List(ctx, filter, 1)
	for _, m := range oldest {
		example = fmt.Sprintf("%s (%s: %s)", m.AggregateID, m.Reason, m.Error)
	}
	return n, example, err
}

// Used returns the highest generation number of other projections for a collection.
func (d rebuildData) Used(ctx context.Context, projection, collection string) (int64, error) {
	_, others, _, err := ownership.NewNumbers(d.readModels).Used(ctx, projection, collection)
	return others, err
}

// Inspect begins to inspect a collection.
func (d rebuildData) Inspect(collection string) rebuild.Inspection {
	return &inspection{rebuildData: d, collection: collection}
}

// archived returns which aggregates have no events in the event store.
func (d rebuildData) archived(ctx context.Context, ids []string) ([]string, error) {
	known, err := d.events.Known(ctx, ids)
	return slices.DeleteFunc(ids, func(id string) bool {
		_, ok := known[id]
		return ok
	}), err
}

// inspectTime is how long one step of an inspection lasts, because the coordinator must
// renew its lease between the steps.
const inspectTime = time.Second

// inspection searches a collection for documents that a promotion would lose.
type inspection struct {
	rebuildData
	collection string
	past       readmodel.Inspection
}

// Next continues for inspectTime.
func (i *inspection) Next(ctx context.Context) (done bool, found rebuild.Inspected, err error) {
	for end := time.Now().Add(inspectTime); !i.past.Done && time.Now().Before(end); {
		next, err := i.past.Next(ctx, i.readModels, i.collection, i.archived)
		if err != nil {
			return false, rebuild.Inspected{}, err
		}
		i.past = next
	}
	return i.past.Done, rebuild.Inspected{
		Unmanaged: i.past.Err(i.readModels, i.collection), Archived: i.past.Archived, Example: i.past.ExampleArchived,
	}, nil
}
