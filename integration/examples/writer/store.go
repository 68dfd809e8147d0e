package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// ErrConflict means that another writer has appended to the aggregate since the caller
// read it. Read the aggregate again, decide again, and append again.
var ErrConflict = errors.New("another writer has appended to the aggregate")

// Event is an event that a command has decided on.
type Event struct {
	Type    string
	Payload any
}

// stored is an event as the event store keeps it.
type stored struct {
	AggregateID   string    `bson:"aggregateId"`
	AggregateType string    `bson:"aggregateType"`
	EventID       int64     `bson:"eventId"`
	EventType     string    `bson:"eventType"`
	Timestamp     time.Time `bson:"timestamp"`
	Payload       any       `bson:"payload"`
}

// Store appends events to a collection.
type Store struct {
	events *mongo.Collection
}

// OpenStore creates the unique index, if it is missing, and returns the store. The index
// is what makes Append safe: MongoDB refuses a second event with the same id. Penstock
// reads histories by the same index.
func OpenStore(ctx context.Context, events *mongo.Collection) (*Store, error) {
	_, err := events.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}},
		Options: options.Index().SetUnique(true),
	})
	if err != nil {
		return nil, fmt.Errorf("create the unique index of %s: %w", events.Name(), err)
	}
	return &Store{events: events}, nil
}

// Version returns the id of the aggregate's last event, 0 if it has none.
func (s *Store) Version(ctx context.Context, aggregateID string) (int64, error) {
	var last stored
	err := s.events.FindOne(ctx, bson.D{{Key: "aggregateId", Value: aggregateID}},
		options.FindOne().SetSort(bson.D{{Key: "eventId", Value: -1}})).Decode(&last)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the last event of %s: %w", aggregateID, err)
	}
	return last.EventID, nil
}

// Append stores events after version, the last event that the caller has seen, and returns
// the new version. If another writer was faster, the error is [ErrConflict] and nothing is
// stored. If the error is another one, the events may be stored: read the version again.
func (s *Store) Append(ctx context.Context, aggregateType, aggregateID string, version int64, events ...Event) (int64, error) {
	now := time.Now()
	documents := make([]stored, 0, len(events))
	for _, e := range events {
		version++
		documents = append(documents, stored{
			AggregateID: aggregateID, AggregateType: aggregateType, EventID: version,
			EventType: e.Type, Timestamp: now, Payload: e.Payload,
		})
	}
	if len(documents) == 1 {
		_, err := s.events.InsertOne(ctx, documents[0])
		return version, appendError(aggregateID, err)
	}
	// Several events of one command are stored together or not at all.
	session, err := s.events.Database().Client().StartSession()
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", aggregateID, err)
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		return s.events.InsertMany(ctx, documents)
	})
	return version, appendError(aggregateID, err)
}

func appendError(aggregateID string, err error) error {
	switch {
	case err == nil:
		return nil
	case mongo.IsDuplicateKeyError(err):
		return fmt.Errorf("append to %s: %w", aggregateID, ErrConflict)
	default:
		return fmt.Errorf("append to %s: %w", aggregateID, err)
	}
}
