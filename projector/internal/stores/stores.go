// Package stores opens the MongoDB databases of a projector or of one of its commands.
package stores

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

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// AttemptTimeout bounds one attempt to reach MongoDB.
const AttemptTimeout = 10 * time.Second

// Stores are the MongoDB databases in use. There is one client for each URI.
type Stores struct {
	ReadModels *mongo.Database
	State      *mongo.Database
	Events     *mongo.Collection
	// Needed are the clients of the read models and the state. Without them nothing can be
	// projected.
	Needed []Client
	// Source is the client of the event store.
	Source Client
	// all has the clients, each by its connection string and the file of that.
	all      map[[2]string]*mongo.Client
	rotation mongox.Rotation
	// monitor observes all commands; nil for none.
	monitor *event.CommandMonitor
	// dialer opens the connections; nil means TCP.
	dialer options.ContextDialer
	logger zerolog.Logger
}

// Client is a client, with its purpose in words.
type Client struct {
	*mongo.Client
	What  string
	Store mongox.Store
}

// Open makes the clients. They connect in the background. monitor observes all commands; nil
// for none.
func Open(c mongox.ReadModelsConfig, monitor *event.CommandMonitor, logger zerolog.Logger) (*Stores, error) {
	s := &Stores{all: make(map[[2]string]*mongo.Client), monitor: monitor, dialer: c.Dialer, logger: logger}
	readModels, err := s.client("read models", c.ReadModels())
	if err != nil {
		return nil, err
	}
	state, err := s.client("state", c.State())
	if err != nil {
		return nil, err
	}
	events, err := s.client("event store", c.Events())
	if err != nil {
		return nil, err
	}
	s.Source = Client{events, "event store", c.Events()}
	s.Needed = []Client{{readModels, "read models", c.ReadModels()}}
	if state != readModels {
		s.Needed = append(s.Needed, Client{state, "state", c.State()})
	}
	s.ReadModels = readModels.Database(c.ReadModels().Database)
	s.State = state.Database(c.State().Database)
	s.Events = events.Database(c.Events().Database).Collection(c.Events().Collection,
		options.Collection().SetReadConcern(readconcern.Majority()).SetReadPreference(readpref.Primary()))
	return s, nil
}

func (s *Stores) client(what string, store mongox.Store) (*mongo.Client, error) {
	key := [2]string{store.URI, store.File}
	if client := s.all[key]; client != nil {
		return client, nil
	}
	client, err := mongox.Open(store.URI, mongox.Options{AppName: "penstock-projector", Monitor: s.monitor, Dialer: s.dialer, File: store.File, Rotation: &s.rotation, Logger: s.logger.With().Str("store", what).Logger()})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s.all[key] = client
	return client, nil
}

// Ping reports whether the databases that projecting needs answer.
func (s *Stores) Ping(ctx context.Context) error {
	for _, client := range s.Needed {
		if err := client.Ping(ctx, readpref.Primary()); err != nil {
			return fmt.Errorf("reach the %s: %w", client.What, err)
		}
	}
	return nil
}

// PingReadModels reports whether the primary of the read models answers.
func (s *Stores) PingReadModels(ctx context.Context) error {
	ctx, cancel := mongox.Timeout(ctx, AttemptTimeout)
	defer cancel()
	return mongox.Explain(ctx, s.ReadModels.Client().Ping(ctx, readpref.Primary()))
}

// NoEvents reports whether the event store is empty.
func (s *Stores) NoEvents(ctx context.Context) (bool, error) {
	err := s.Events.FindOne(ctx, bson.D{}, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read an event of collection %s: %w", s.Events.Name(), err)
	}
	return false, nil
}

// Close closes the clients.
func (s *Stores) Close(ctx context.Context) {
	s.rotation.Stop()
	for _, client := range s.all {
		if err := mongox.Disconnect(ctx, client); err != nil {
			s.logger.Debug().Err(err).Msg("MongoDB client not closed cleanly")
		}
	}
}
