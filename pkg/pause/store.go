package pause

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// collectionName is the collection's name in the database of the state.
const collectionName = "pauses"

// requestTimeout bounds one request.
const requestTimeout = 10 * time.Second

// Pause describes a pause of a service.
type Pause struct {
	// Who paused the service, as NAME@HOST.
	Who string `bson:"who" json:"who"`
	// Why is the given reason.
	Why string `bson:"why" json:"why"`
	// At is when the pause began, by the server's clock.
	At time.Time `bson:"at" json:"at"`
	// Stopped are the processes whose work has ended for the pause.
	Stopped []string `bson:"stopped,omitempty" json:"stopped,omitempty"`
}

// In returns the collection in a database of the state. Writes need a majority, and reads
// go to the primary.
func In(db *mongo.Database) *mongo.Collection { return mongox.Durable(db, collectionName) }

// Store is the pause of one service. It is safe for concurrent use.
type Store struct {
	collection mongox.Collection
	service    string
	name       string
}

// NewStore makes the store of a service's pause. name distinguishes services of one kind in
// a database: the stream, or the pipeline.
func NewStore(c mongox.Collection, service, name string) *Store {
	return &Store{collection: c, service: service, name: name}
}

func (s *Store) id() bson.E {
	return bson.E{Key: "_id", Value: bson.D{{Key: "service", Value: s.service}, {Key: "name", Value: s.name}}}
}

// Get reads the pause; nil without an error means that the service is not paused.
func (s *Store) Get(ctx context.Context) (*Pause, error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	var found Pause
	err := s.collection.FindOne(ctx, bson.D{s.id()}).Decode(&found)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, nil
	case mongox.HasCode(err, mongox.CodeUnauthorized):
		return nil, fmt.Errorf("read the pause of the %s: %w; grant the user readWrite on the database of the state (PENSTOCK_STATE_DATABASE)", s.service, err)
	case err != nil:
		return nil, fmt.Errorf("read the pause of the %s: %w", s.service, mongox.Explain(ctx, err))
	}
	return &found, nil
}

// Begin pauses the service. If it is already paused, nothing changes, and the result is
// false.
func (s *Store) Begin(ctx context.Context, who, why string) (begun bool, err error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	// An upsert that matches changes nothing. The time of the server needs a pipeline, and
	// a text in a pipeline could be an expression.
	keep := func(field string, value any) bson.E {
		return bson.E{Key: field, Value: bson.D{{Key: "$ifNull", Value: bson.A{"$" + field, value}}}}
	}
	result, err := s.collection.UpdateOne(ctx, bson.D{s.id()}, mongo.Pipeline{{{Key: "$set", Value: bson.D{
		keep("who", mongox.Literal(who)),
		keep("why", mongox.Literal(why)),
		keep("at", mongox.Now),
	}}}}, options.UpdateOne().SetUpsert(true))
	if err != nil {
		return false, fmt.Errorf("pause the %s: %w", s.service, mongox.Explain(ctx, err))
	}
	return result.UpsertedCount > 0, nil
}

// End resumes the service; ended is false if it was not paused.
func (s *Store) End(ctx context.Context) (ended bool, err error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	result, err := s.collection.DeleteOne(ctx, bson.D{s.id()})
	if err != nil {
		return false, fmt.Errorf("resume the %s: %w", s.service, mongox.Explain(ctx, err))
	}
	return result.DeletedCount > 0, nil
}

// AddStopped adds a process whose work has ended to a pause, if the present pause began at
// that time.
func (s *Store) AddStopped(ctx context.Context, process string, at time.Time) error {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	_, err := s.collection.UpdateOne(ctx, bson.D{s.id(), {Key: "at", Value: at}},
		bson.D{{Key: "$addToSet", Value: bson.D{{Key: "stopped", Value: process}}}})
	if err != nil {
		return fmt.Errorf("record that %s has stopped for the pause: %w", process, mongox.Explain(ctx, err))
	}
	return nil
}
