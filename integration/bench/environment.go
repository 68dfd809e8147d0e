package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
)

const (
	// limitSubscription is the limits' own subscription of the services' topic.
	limitSubscription = "limit"
	// limitTopic is the limits' own topic, configured like the services' topic.
	limitTopic = "limit"
	// buckets is the number of sessions in session mode bucket.
	buckets = 64
	// projections is the number of the shop's projections.
	projections = 3
)

// disconnectTimeout bounds the wait for operations that still use the client.
const disconnectTimeout = 10 * time.Second

// awaitPoll is the pause between two looks at what the services have done.
const awaitPoll = 50 * time.Millisecond

// inBuckets makes a publisher use session buckets.
var inBuckets = []string{"PENSTOCK_SESSION_MODE=bucket", fmt.Sprintf("PENSTOCK_SESSION_BUCKETS=%d", buckets)}

// environment has the stand-ins and a pipeline over them. Its owner closes it.
type environment struct {
	*bench
	dir      string
	backend  *harness.Embedded
	pipeline *harness.Pipeline
	client   *mongo.Client
	store    *mongo.Collection
	// projections is the number of projections and views.
	projections int
	// before is an operation time before the first event.
	before bson.Timestamp
}

// with has the variables of the services, and subscriptions in addition to the projector's.
// definition is a projection or a view instead of the shop's projections.
type with struct {
	publisher, projector []string
	subscriptions        []string
	definition           string
}

// newEnvironment starts the stand-ins with an empty event store.
func (b *bench) newEnvironment(ctx context.Context, w with) (*environment, error) {
	// The heap of the environment before; see collectBetweenRows.
	runtime.GC()
	dir, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the logs: %w", err)
	}
	e := &environment{bench: b, dir: dir}
	if err := e.open(ctx, w); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *environment) open(ctx context.Context, w with) (err error) {
	if e.backend, err = harness.StartEmbedded(harness.EmbeddedOptions{Latency: e.Latency, MoreSubscriptions: w.subscriptions}); err != nil {
		return err
	}
	if err = e.backend.Broker.CreateTopic(sbemu.Topic{
		Name: limitTopic, DuplicateDetectionWindow: 10 * time.Minute,
		Subscriptions: []sbemu.Subscription{{Name: limitSubscription, RequiresSession: true, LockDuration: 30 * time.Second}},
	}); err != nil {
		return err
	}
	if e.client, err = mongo.Connect(options.Client().ApplyURI(e.backend.MongoURI()).SetAppName("bench")); err != nil {
		return fmt.Errorf("connect to the event store: %w", err)
	}
	// The same limits as in the chart, for containers of 512 MiB.
	publisher := append([]string{"GOMEMLIMIT=460MiB"}, w.publisher...)
	// A new pipeline sweeps all aggregates in its first seconds, and then once an hour.
	// That would disturb the measurement.
	projector := append([]string{"GOMEMLIMIT=409MiB", "PENSTOCK_RECONCILE=off"}, w.projector...)
	definitions := []byte(w.definition)
	if e.projections = 1; w.definition == "" {
		definitions, e.projections = shop.New(1, 1).Projections, projections
	}
	e.pipeline, err = harness.NewPipeline(e.backend, harness.PipelineOptions{
		Programs: e.Binaries, Dir: e.dir, Projections: definitions,
		PublisherEnv: publisher, ProjectorEnv: projector,
	})
	if err != nil {
		return err
	}
	e.store = e.client.Database(harness.EventsDatabase).Collection(harness.EventsCollection)
	if _, err = e.store.Indexes().CreateOne(ctx, workload.Index()); err != nil {
		return fmt.Errorf("create the event store's index: %w", err)
	}
	if e.before, err = eventstore.NewReader(e.store, event.DefaultFields(), zerolog.Nop()).OperationTime(ctx); err != nil {
		return err
	}
	return nil
}

func (e *environment) close() error {
	if e.pipeline != nil {
		e.pipeline.Kill()
	}
	var errs []error
	if e.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), disconnectTimeout)
		defer cancel()
		errs = append(errs, e.client.Disconnect(ctx))
	}
	if e.backend != nil {
		errs = append(errs, e.backend.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

// load stores events.
func (e *environment) load(ctx context.Context, events []workload.Event) error {
	const limit = 10_000
	for len(events) > 0 {
		n := min(limit, len(events))
		if _, err := e.store.InsertMany(ctx, events[:n]); err != nil {
			return fmt.Errorf("store the events: %w", err)
		}
		events = events[n:]
	}
	return nil
}

// goLive starts the services, waits until they are ready, and stops them again. The
// publisher then has a checkpoint in the change stream, and the projections are live, even
// if the event store held events before.
func (e *environment) goLive(ctx context.Context) error {
	if _, err := e.startProjectors(ctx, 1); err != nil {
		return err
	}
	if err := e.awaitLive(ctx); err != nil {
		return err
	}
	if err := e.startPublisher(ctx); err != nil {
		return err
	}
	return e.pipeline.Stop(ctx)
}

// startProjectors starts n projectors, and waits until all of them are ready.
func (e *environment) startProjectors(ctx context.Context, n int) ([]*harness.Process, error) {
	all := make([]*harness.Process, n)
	for i := range all {
		var err error
		if all[i], err = e.pipeline.StartProjector(fmt.Sprintf("projector-%d", i)); err != nil {
			return nil, err
		}
	}
	return all, e.pipeline.AwaitReady(ctx)
}

// awaitLive waits until all projections are live and none is being built.
func (e *environment) awaitLive(ctx context.Context) error {
	return proc.Await(ctx, awaitPoll, "projections to be live", func() (bool, error) {
		catalog := e.client.Database(harness.StateDatabase).Collection("projections")
		live, err := catalog.CountDocuments(ctx, bson.D{
			{Key: "live", Value: bson.D{{Key: "$ne", Value: nil}}}, {Key: "building", Value: nil},
		})
		return live == int64(e.projections), err
	})
}

// startPublisher starts a publisher and waits until it leads and has a checkpoint.
func (e *environment) startPublisher(ctx context.Context) error {
	if _, err := e.pipeline.StartPublisher("publisher-0"); err != nil {
		return err
	}
	if _, err := e.pipeline.AwaitLeader(ctx); err != nil {
		return err
	}
	checkpoints := e.client.Database(harness.StateDatabase).Collection("checkpoints")
	return proc.Await(ctx, awaitPoll, "a checkpoint in the change stream", func() (bool, error) {
		n, err := checkpoints.CountDocuments(ctx, bson.D{{Key: "token", Value: bson.D{{Key: "$exists", Value: true}}}})
		return n > 0, err
	})
}

// published counts the messages that the services' topic has accepted.
func (e *environment) published() int {
	accepted, _ := e.backend.TopicCounts()
	return accepted
}

// settled returns how many of n messages the projector has settled.
func (e *environment) settled(n int) int {
	backlog, err := e.backend.Backlog()
	if err != nil {
		return 0
	}
	return n - backlog.Active
}

// check compares all read models with the workload's own fold, because the speed of wrong
// results is meaningless.
func (e *environment) check(ctx context.Context, w *workload.Workload, until map[string]int64) error {
	report, err := verify.ReadModels(ctx, e.store, e.client.Database(harness.ReadModelsDatabase), w.Oracle, until)
	if err != nil {
		return err
	}
	if !report.OK() {
		return fmt.Errorf("%d of %d read models are right: %v", report.Right, report.Expected, report.Findings)
	}
	return nil
}
