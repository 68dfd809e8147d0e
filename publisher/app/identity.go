package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// guardInterval is how often a process compares its pipeline with what the checkpoint and
// the lock record. A standby would otherwise wait forever behind another pipeline's
// leader.
const guardInterval = 10 * time.Second

// identityOf returns the pipeline of a configuration on a cluster.
func identityOf(c config.Config, cluster mongox.Cluster) checkpoint.Identity {
	events := c.MongoDB.Events()
	identity := checkpoint.Identity{
		Cluster:     cluster.Name,
		Hosts:       cluster.Hosts,
		Database:    events.Database,
		Collection:  events.Collection,
		Namespace:   strings.ToLower(c.ServiceBus.Host()),
		Topic:       strings.ToLower(c.ServiceBus.Topic),
		SessionMode: c.Publish.SessionMode,
	}
	if c.Publish.SessionMode == string(event.SessionPerBucket) {
		identity.SessionBuckets = c.Publish.SessionBuckets
	}
	return identity
}

// awaitPipeline identifies the pipeline of this process, and fails if the checkpoint or the
// lock belongs to another one. It retries while MongoDB does not answer.
func (w *worker) awaitPipeline(ctx context.Context, c config.Config, client *mongo.Client) error {
	for {
		cluster, err := identifyCluster(ctx, client)
		if err == nil {
			w.identity = identityOf(c, cluster)
			err = w.checkPipeline(ctx)
		}
		if err == nil {
			w.standby.Works()
		}
		switch {
		case err == nil && cluster.Sharded():
			w.logger.Info().Msg("reading through mongos; a shard without writes delays the stream until its next no-op entry, by up to periodicNoopIntervalSecs (10 s)")
			return nil
		case err == nil || fatal(err):
			return err
		case mongox.HasCode(err, mongox.CodeUnauthorized):
			return fmt.Errorf("%w: %w; grant the user readWrite on the database of the state (PENSTOCK_STATE_DATABASE)", errSetup, err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		w.logger.Warn().Err(err).Msg("pipeline not compared with the checkpoint's; retrying")
		if err := backoff.Wait(ctx, attemptPause); err != nil {
			return err
		}
	}
}

// identifyCluster reads which deployment holds the event store.
func identifyCluster(ctx context.Context, client *mongo.Client) (mongox.Cluster, error) {
	ctx, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	cluster, err := mongox.ClusterOf(ctx, client)
	return cluster, mongox.Explain(ctx, err)
}

// here returns the pipeline of this process, with the UUID of the collection that has the
// name of the event store now.
func (w *worker) here(ctx context.Context) (checkpoint.Identity, error) {
	id, err := w.identify(ctx)
	here := w.identity
	here.CollectionUUID = id.UUID
	return here, err
}

// identify reads which collection has the name of the event store now.
func (w *worker) identify(ctx context.Context) (mongox.CollectionID, error) {
	ctx, cancel := mongox.Timeout(ctx, claimTimeout)
	defer cancel()
	id, err := w.collection(ctx)
	switch {
	case mongox.HasCode(err, mongox.CodeUnauthorized):
		return id, fmt.Errorf("%w: %w; grant the user listCollections on the database of the event store (the role read has it)", errSetup, err)
	case err != nil:
		return id, mongox.Explain(ctx, err)
	}
	return id, nil
}

// checkPipeline fails if the checkpoint belongs to another pipeline, or the lock to
// another stream. A takeover that the configuration allows is no failure.
func (w *worker) checkPipeline(ctx context.Context) error {
	here, err := w.here(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := mongox.Timeout(ctx, claimTimeout)
	defer cancel()
	if w.checkLock != nil {
		if err := w.checkLock(ctx); err != nil {
			return mongox.Explain(ctx, err)
		}
	}
	err = w.checkpoints.Check(ctx, here)
	if other, ok := errors.AsType[*checkpoint.OtherPipelineError](err); ok && other.Adoption == w.adopt {
		return nil
	}
	return explainPipeline(mongox.Explain(ctx, err))
}

// guard compares the pipelines every [guardInterval] until ctx ends, and returns the
// first refusal. It also ends a process that MongoDB has refused for too long, whether the
// process leads or not: only a restarted process can have new credentials.
func (w *worker) guard(ctx context.Context) error {
	ticker := time.NewTicker(guardInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		switch err := w.checkPipeline(ctx); {
		case errors.Is(err, checkpoint.ErrOtherPipeline), errors.Is(err, leader.ErrOtherStream):
			return err
		case err == nil:
			w.standby.Works()
			// A refusal of a term that begins now is none of the start.
			w.access.Served()
		case mongox.AccessRefused(err) && w.standby.Final(err):
			return fmt.Errorf("compare the pipeline with the checkpoint's: %w; check the user, the password and authSource in the connection string, and the user's roles", w.standby.Check(ctx))
		default:
			w.logger.Debug().Err(err).Msg("pipeline not compared with the checkpoint's")
		}
	}
}

// explainPipeline adds the remedies to the error of a checkpoint that belongs to another
// pipeline. It returns any other error unchanged.
func explainPipeline(err error) error {
	other, ok := errors.AsType[*checkpoint.OtherPipelineError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%w; to use another checkpoint, which starts at PENSTOCK_START, set another stream name (PENSTOCK_STREAM); to take this checkpoint over instead, stop the other pipeline permanently and set PENSTOCK_ADOPT_CHECKPOINT=%s: publishing continues at its position, or with a scan if the event store differs", err, other.Adoption)
}
