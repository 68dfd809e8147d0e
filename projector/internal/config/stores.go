package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

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
	Needed []mongox.Client
	// Source is the client of the event store.
	Source mongox.Client
	mongox.Clients
}

// OpenStores makes the clients. They connect in the background. monitor, which only tests have, observes all commands; nil
// for none.
func OpenStores(c mongox.ReadModelsConfig, monitor *event.CommandMonitor, logger zerolog.Logger) (*Stores, error) {
	s := &Stores{Clients: mongox.Clients{Options: mongox.Options{AppName: "penstock-projector", Monitor: monitor, Dialer: c.Dialer, Logger: logger}}}
	readModels, err := s.For("read models", c.ReadModels())
	if err != nil {
		return nil, err
	}
	state, err := s.For("state", c.State())
	if err != nil {
		return nil, err
	}
	s.Needed = slices.Clip(s.Opened)
	if s.Source, err = s.For("event store", c.Events()); err != nil {
		return nil, err
	}
	s.ReadModels = readModels.Database(c.ReadModels().Database)
	s.State = state.Database(c.State().Database)
	s.Events = s.Source.Database(c.Events().Database).Collection(c.Events().Collection)
	return s, nil
}

// Ping reports whether the databases that projecting needs answer.
func (s *Stores) Ping(ctx context.Context) error {
	for _, client := range s.Needed {
		if err := client.Ping(ctx, nil); err != nil {
			return fmt.Errorf("reach the %s: %w", client.What, err)
		}
	}
	return nil
}

// PingReadModels reports whether the primary of the read models answers.
func (s *Stores) PingReadModels(ctx context.Context) error {
	ctx, cancel := mongox.Timeout(ctx, AttemptTimeout)
	defer cancel()
	return mongox.Explain(ctx, s.ReadModels.Client().Ping(ctx, nil))
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
