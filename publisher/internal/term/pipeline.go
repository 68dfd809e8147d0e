package term

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

// guardInterval is how often a process compares its pipeline with what the checkpoint
// records. A standby would otherwise wait forever behind another pipeline's
// leader.
const guardInterval = 10 * time.Second

// AwaitPipeline identifies the pipeline of this process, whose event store the client reads,
// and fails if the checkpoint belongs to another one. It retries while MongoDB
// does not answer. An error tells the operator what to do.
func (r *Runner) AwaitPipeline(ctx context.Context, client *mongo.Client) error {
	for {
		identity, cluster, err := Identify(ctx, r.options.Config, client)
		if err == nil {
			r.identity = identity
			err = r.checkPipeline(ctx)
		}
		if err == nil {
			r.standby.Works()
		}
		switch {
		case err == nil && cluster.Sharded():
			r.options.Logger.Info().Msg("reading through mongos; a shard without writes delays the stream until its next no-op entry, by up to periodicNoopIntervalSecs (10 s)")
			return nil
		case err == nil || Fatal(err):
			return err
		case mongox.HasCode(err, mongox.CodeUnauthorized):
			return fmt.Errorf("%w: %w; grant the user readWrite on the database of the state (PENSTOCK_STATE_DATABASE)", ErrSetup, err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		r.options.Logger.Warn().Err(err).Msg("pipeline not compared with the checkpoint's; retrying")
		if err := poll.Wait(ctx, askPause); err != nil {
			return err
		}
	}
}

// Identify returns the pipeline of a configuration whose event store the client reads, without
// the UUID of its collection, and the cluster that holds it.
func Identify(ctx context.Context, c config.Config, client *mongo.Client) (checkpoint.Identity, mongox.Cluster, error) {
	ctx, cancel := mongox.Timeout(ctx, askTimeout)
	defer cancel()
	cluster, err := mongox.ClusterOf(ctx, client)
	events := c.MongoDB.Events()
	identity := checkpoint.Identity{
		Cluster:     cluster.Name,
		Hosts:       cluster.Hosts,
		Database:    events.Database,
		Collection:  events.Collection,
		Namespace:   strings.ToLower(c.ServiceBus.Host()),
		Topic:       strings.ToLower(c.ServiceBus.Topic),
		SessionMode: c.Publish.SessionMode,

		FirstEventID: c.Fields.FirstEventID,
		UUIDs:        c.MongoDB.UUIDRepresentation(),
	}
	if c.Publish.SessionMode == string(event.SessionPerBucket) {
		identity.SessionBuckets = c.Publish.SessionBuckets
	}
	return identity, cluster, mongox.Explain(ctx, err)
}

// here returns the pipeline of this process, with the UUID of the collection that has the
// name of the event store now.
func (r *Runner) here(ctx context.Context) (checkpoint.Identity, error) {
	id, err := r.identify(ctx)
	here := r.identity
	here.CollectionUUID = id.UUID
	return here, err
}

// identify reads which collection has the name of the event store now.
func (r *Runner) identify(ctx context.Context) (mongox.CollectionID, error) {
	ctx, cancel := mongox.Timeout(ctx, askTimeout)
	defer cancel()
	id, err := r.options.Collection(ctx)
	switch {
	case mongox.HasCode(err, mongox.CodeUnauthorized):
		return id, fmt.Errorf("%w: %w; grant the user listCollections on the database of the event store (the role read has it)", ErrSetup, err)
	case err != nil:
		return id, mongox.Explain(ctx, err)
	}
	if id.Exists {
		r.exists.Store(true)
		r.absent.Store(nil)
	} else if r.absent.Load() == nil {
		now := time.Now()
		r.absent.Store(&now)
	}
	return id, nil
}

// checkPipeline fails if the checkpoint belongs to another pipeline.
func (r *Runner) checkPipeline(ctx context.Context) error {
	here, err := r.here(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := mongox.Timeout(ctx, askTimeout)
	defer cancel()
	return ExplainPipeline(mongox.Explain(ctx, r.options.Checkpoints.Check(ctx, here)))
}

// guard compares the pipelines every [guardInterval] until ctx ends, and returns the
// first refusal. It also ends a process that MongoDB has refused for too long, whether the
// process leads or not: only a restarted process can have new credentials.
func (r *Runner) guard(ctx context.Context) error {
	ticker := time.NewTicker(guardInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		switch err := r.checkPipeline(ctx); {
		case errors.Is(err, checkpoint.ErrOtherPipeline):
			return err
		case err == nil:
			r.standby.Works()
			// A refusal of a term that begins now is none of the start.
			r.access.Served()
		case mongox.AccessRefused(err) && r.standby.Final(err):
			return fmt.Errorf("compare the pipeline with the checkpoint's: %w; check the user, the password and authSource in the connection string, and the user's roles", r.standby.Check(ctx))
		default:
			r.options.Logger.Debug().Err(err).Msg("pipeline not compared with the checkpoint's")
		}
	}
}

// ExplainPipeline adds the remedies to the error of a checkpoint that belongs to another
// pipeline. It returns any other error unchanged.
func ExplainPipeline(err error) error {
	other, ok := errors.AsType[*checkpoint.OtherPipelineError](err)
	if !ok {
		return err
	}
	if len(other.Differences) == 1 && other.Differences[0].Field == checkpoint.FirstEventIDField {
		return fmt.Errorf("%w; if the events of each aggregate are numbered from the id that is set now, run with this configuration: publisher checkpoint release --why TEXT; otherwise set PENSTOCK_FIRST_EVENT_ID as recorded", err)
	}
	drain := ""
	if slices.ContainsFunc(other.Differences, func(d checkpoint.Difference) bool { return d.Field == checkpoint.SessionModeField }) {
		drain = "; but first stop publishing with the recorded session mode until every subscription is empty, because an event that waits in its former session can arrive after later ones"
	}
	return fmt.Errorf("%w; to use another checkpoint, which starts at PENSTOCK_START, set another stream name (PENSTOCK_STREAM); to take this checkpoint over instead, stop the other pipeline permanently and run, with this configuration: publisher checkpoint release --why TEXT (publishing continues at its position, or with a scan if the event store differs)%s", err, drain)
}
