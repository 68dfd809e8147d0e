package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// CollectionName is the collection of the owners.
const CollectionName = "pipeline_owners"

// Collection is the part of [*mongo.Collection] that this package needs. Make it with
// [Owners].
type Collection interface {
	FindOne(ctx context.Context, filter any, opts ...options.Lister[options.FindOneOptions]) *mongo.SingleResult
	InsertOne(ctx context.Context, document any, opts ...options.Lister[options.InsertOneOptions]) (*mongo.InsertOneResult, error)
	UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error)
}

var _ Collection = (*mongo.Collection)(nil)

// Owners returns the collection pipeline_owners of db. A majority confirms each write,
// and reads go to the primary.
func Owners(db *mongo.Database) *mongo.Collection {
	return mongox.Durable(db, CollectionName)
}

// Place is a database in which names could collide, with these names.
type Place struct {
	Owners Collection
	Names  []Name
}

// owned is a stored owner.
type owned struct {
	ID    string    `bson:"_id"`
	Owner []Field   `bson:"owner"`
	Since time.Time `bson:"since"`
}

// Take makes the pipeline the owner of all names. The MongoDB user must be able to read
// and write the collections of owners. Take fails with [ErrOwned] if another pipeline
// owns some of the names and adopt is not the code in that error; then it has changed
// nothing. Any other error is MongoDB's. The context should have no deadline of its own.
func Take(ctx context.Context, places []Place, adopt string, logger zerolog.Logger) error {
	conflicts, err := conflictsIn(ctx, places)
	if err != nil {
		return err
	}
	if len(conflicts) > 0 {
		refusal := newConflictError(conflicts)
		if adopt != refusal.Adoption {
			return refusal
		}
		logger.Warn().Str("names", refusal.Error()).Msg("names adopted from another pipeline, as configured")
	}
	for _, place := range places {
		for _, name := range place.Names {
			if err := take(ctx, place.Owners, name, conflicts, logger); err != nil {
				return err
			}
		}
	}
	return nil
}

func conflictsIn(ctx context.Context, places []Place) ([]Conflict, error) {
	var conflicts []Conflict
	for _, place := range places {
		for _, name := range place.Names {
			recorded, err := ownerOf(ctx, place.Owners, name)
			if err != nil {
				return nil, err
			}
			if recorded != nil && !same(recorded, name.Owner) {
				conflicts = append(conflicts, Conflict{Name: name, Recorded: recorded})
			}
		}
	}
	return conflicts, nil
}

// ownerOf returns the owner of a name; nil if it has none.
func ownerOf(ctx context.Context, owners Collection, name Name) ([]Field, error) {
	var found owned
	err := owners.FindOne(ctx, bson.D{{Key: "_id", Value: name.id()}}).Decode(&found)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the owner of %s: %w", name.id(), err)
	}
	return found.Owner, nil
}

// take makes the pipeline the owner of one name. The name must have no owner, or be one
// of the conflicts and still have the owner of that conflict.
func take(ctx context.Context, owners Collection, name Name, conflicts []Conflict, logger zerolog.Logger) error {
	now := time.Now()
	_, err := owners.InsertOne(ctx, owned{ID: name.id(), Owner: name.Owner, Since: now})
	switch {
	case err == nil:
		logger.Info().Str("name", name.id()).Msg("name had no owner; now owned by this pipeline")
		return nil
	case !mongo.IsDuplicateKeyError(err):
		return fmt.Errorf("own %s: %w", name.id(), err)
	}
	for _, c := range conflicts {
		if c.id() != name.id() {
			continue
		}
		_, err := owners.UpdateOne(ctx,
			bson.D{{Key: "_id", Value: name.id()}, {Key: "owner", Value: c.Recorded}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "owner", Value: name.Owner}, {Key: "since", Value: now}}}})
		if err != nil {
			return fmt.Errorf("own %s: %w", name.id(), err)
		}
	}
	// Another process, of this pipeline or of another, may have been faster.
	recorded, err := ownerOf(ctx, owners, name)
	if err != nil {
		return err
	}
	if !same(recorded, name.Owner) {
		return newConflictError([]Conflict{{Name: name, Recorded: recorded}})
	}
	return nil
}
