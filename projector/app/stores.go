package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

const (
	// attemptTimeout bounds one attempt to reach MongoDB at the start.
	attemptTimeout = 10 * time.Second
	// attemptPause is the pause between two attempts.
	attemptPause = 2 * time.Second
	// disconnectTimeout bounds closing the connection to the dead-letter queue.
	disconnectTimeout = 2 * time.Second
)

// stores are the MongoDB databases in use. There is one client for each URI.
type stores struct {
	readModels *mongo.Database
	parked     *mongo.Collection
	events     *mongo.Collection
	// needed are the clients of the read models and the state. Without them nothing can be
	// projected.
	needed []namedClient
	// source is the client of the event store.
	source namedClient
	// all has the clients, each by its connection string and the file of that.
	all      map[[2]string]*mongo.Client
	rotation mongox.Rotation
	// monitor observes all commands; nil for none.
	monitor *event.CommandMonitor
	// dialer opens the connections; nil means TCP.
	dialer options.ContextDialer
}

type namedClient struct {
	*mongo.Client
	what  string
	store mongox.Store
}

// open makes the clients. They connect in the background.
func open(c config.Config, logger zerolog.Logger) (*stores, error) {
	return openMonitored(c, nil, logger)
}

// openMonitored is open with a monitor that observes all commands; nil for none.
func openMonitored(c config.Config, monitor *event.CommandMonitor, logger zerolog.Logger) (*stores, error) {
	s := &stores{all: make(map[[2]string]*mongo.Client), monitor: monitor, dialer: c.MongoDB.Dialer}
	readModels, err := s.client("read models", c.MongoDB.ReadModels(), logger)
	if err != nil {
		return nil, err
	}
	state, err := s.client("state", c.MongoDB.State(), logger)
	if err != nil {
		return nil, err
	}
	events, err := s.client("event store", c.MongoDB.Events(), logger)
	if err != nil {
		return nil, err
	}
	s.source = namedClient{events, "event store", c.MongoDB.Events()}
	s.needed = []namedClient{{readModels, "read models", c.MongoDB.ReadModels()}}
	if state != readModels {
		s.needed = append(s.needed, namedClient{state, "state", c.MongoDB.State()})
	}
	majority := options.Collection().SetReadConcern(readconcern.Majority()).SetReadPreference(readpref.Primary())
	s.readModels = readModels.Database(c.MongoDB.ReadModels().Database)
	s.parked = state.Database(c.MongoDB.State().Database).Collection(park.CollectionName, majority)
	s.events = events.Database(c.MongoDB.Events().Database).Collection(c.MongoDB.Events().Collection, majority)
	return s, nil
}

func (s *stores) client(what string, store mongox.Store, logger zerolog.Logger) (*mongo.Client, error) {
	key := [2]string{store.URI, store.File}
	if client := s.all[key]; client != nil {
		return client, nil
	}
	client, err := mongox.Open(store.URI, mongox.Options{AppName: "penstock-projector", Monitor: s.monitor, Dialer: s.dialer, File: store.File, Rotation: &s.rotation, Logger: logger.With().Str("store", what).Logger()})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s.all[key] = client
	return client, nil
}

// state returns the database of the state.
func (s *stores) state() *mongo.Database { return s.parked.Database() }

// ping is the readiness check.
func (s *stores) ping(ctx context.Context) error {
	for _, client := range s.needed {
		if err := client.Ping(ctx, readpref.Primary()); err != nil {
			return fmt.Errorf("reach the %s: %w", client.what, err)
		}
	}
	return nil
}

// pingReadModels reports whether the primary of the read models answers.
func (s *stores) pingReadModels(ctx context.Context) error {
	ctx, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	return mongox.Explain(ctx, s.readModels.Client().Ping(ctx, readpref.Primary()))
}

func (s *stores) close(ctx context.Context, logger zerolog.Logger) {
	s.rotation.Stop()
	for _, client := range s.all {
		if err := mongox.Disconnect(ctx, client); err != nil {
			logger.Debug().Err(err).Msg("MongoDB client not closed cleanly")
		}
	}
}

// await waits until it reaches the stores and can read the event store. It fails if one of
// them is no replica set or refuses the credentials. Without this check, a wrong event
// store would show only at the first gap.
func (s *stores) await(ctx context.Context, logger zerolog.Logger, start *startup) error {
	for _, client := range s.needed {
		if err := s.awaitOne(ctx, logger, start, client, func(ctx context.Context) error {
			return mongox.CheckReplicaSet(ctx, client.Client)
		}); err != nil {
			return err
		}
	}
	return s.awaitOne(ctx, logger, start, s.source, s.readEvent)
}

// awaitOne repeats a check of a store until it succeeds, or until only an operator can fix
// the error.
func (s *stores) awaitOne(ctx context.Context, logger zerolog.Logger, start *startup, client namedClient, check func(context.Context) error) error {
	what := fmt.Sprintf("reach the %s at %s", client.what, client.store)
	defer start.begin(what, logger)()
	for {
		attempt, cancel := mongox.Timeout(ctx, attemptTimeout)
		err := mongox.Explain(attempt, check(attempt))
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, mongox.ErrNoReplicaSet), errors.Is(err, mongox.ErrNotMongoDB):
			return fmt.Errorf("MongoDB at %s (%s): %w", client.store, client.what, err)
		case mongox.HasCode(err, mongox.CodeAuthenticationFailed, mongox.CodeAtlasError) && !mongox.Transient(err):
			return fmt.Errorf("MongoDB at %s (%s) refuses the credentials: %w; %s", client.store, client.what, err, mongox.RemedyCredentials)
		case mongox.HasCode(err, mongox.CodeUnauthorized):
			return fmt.Errorf("MongoDB at %s (%s) does not give the user the rights that the projector needs: %w; give it the role readWrite on the databases of the read models and the state, and read on that of the event store", client.store, client.what, err)
		}
		start.retry(what, err)
		logger.Warn().Err(err).Stringer("store", client.store).Str("what", client.what).Msg("MongoDB cannot be reached; retrying")
		if err := backoff.Wait(ctx, attemptPause); err != nil {
			return err
		}
	}
}

// readEvent tries to read one event of the event store.
func (s *stores) readEvent(ctx context.Context) error {
	_, err := s.noEvents(ctx)
	return err
}

// noEvents reports whether the event store is empty.
func (s *stores) noEvents(ctx context.Context) (bool, error) {
	err := s.events.FindOne(ctx, bson.D{}, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read an event of collection %s: %w", s.events.Name(), err)
	}
	return false, nil
}
