package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// OwnersName is the collection of the owners.
const OwnersName = "pipeline_owners"

// ErrUnsettled says that the owner of a name has come and gone while it was read, as while a
// replica set elects its primary. A later attempt succeeds.
var ErrUnsettled = errors.New("its owner record appeared and disappeared several times; the replica set may be electing its primary")

// Owners returns the collection pipeline_owners of db.
func Owners(db *mongo.Database) *mongo.Collection {
	return db.Collection(OwnersName)
}

// Place is a database in which names could collide, with these names.
type Place struct {
	Owners mongox.Collection
	Names  []OwnedName
}

// owned is a stored owner.
type owned struct {
	ID    string       `bson:"_id"`
	Owner []OwnerField `bson:"owner"`
	Since time.Time    `bson:"since"`
}

// TakeNames makes the pipeline the owner of all names. The MongoDB user must be able to read
// and write the collections of owners. TakeNames fails with [ErrOwned] if another pipeline
// owns some of the names; then it has changed nothing. Any other error is
// [ErrUnsettled] or MongoDB's. The context should have no deadline of its own.
func TakeNames(ctx context.Context, places []Place, logger zerolog.Logger) error {
	if _, err := CheckNames(ctx, places); err != nil {
		return err
	}
	for _, place := range places {
		for _, name := range place.Names {
			if err := takeName(ctx, place.Owners, name, logger); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckNames fails with [ErrOwned] if [TakeNames] would, and changes nothing. Otherwise it returns the
// names that have no owner yet. Any other error is MongoDB's.
func CheckNames(ctx context.Context, places []Place) (unowned []OwnedName, err error) {
	var conflicts []Conflict
	for _, place := range places {
		for _, name := range place.Names {
			found, err := findOwner(ctx, place.Owners, name)
			switch {
			case err != nil:
				return nil, err
			case found == nil:
				unowned = append(unowned, name)
			case !sameOwner(found.Owner, name.Owner):
				conflicts = append(conflicts, Conflict{OwnedName: name, Recorded: found.Owner})
			}
		}
	}
	if len(conflicts) > 0 {
		return nil, &ConflictError{conflicts}
	}
	return unowned, nil
}

// findOwner returns the stored owner of a name; nil if it has none.
func findOwner(ctx context.Context, owners mongox.Collection, name OwnedName) (*owned, error) {
	var found owned
	err := owners.FindOne(ctx, bson.D{{Key: "_id", Value: name.ID()}}).Decode(&found)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the owner of %s: %w", name.ID(), err)
	}
	return &found, nil
}

// OwnerOf returns the stored owner of a name; nil if there is none.
func OwnerOf(ctx context.Context, owners mongox.Collection, name OwnedName) ([]OwnerField, error) {
	found, err := findOwner(ctx, owners, name)
	if err != nil || found == nil {
		return nil, err
	}
	return found.Owner, nil
}

// ReleaseName removes the owner of a name, if there is one.
func ReleaseName(ctx context.Context, owners mongox.Collection, name OwnedName) error {
	if _, err := owners.DeleteMany(ctx, bson.D{{Key: "_id", Value: name.ID()}}); err != nil {
		return fmt.Errorf("release %s: %w", name.ID(), err)
	}
	return nil
}

// takeAttempts bounds the attempts to own a name. An attempt fails if the owner is gone
// between the insert that it refuses and the read of it: a new primary has rolled it back, or
// somebody deletes owners.
const takeAttempts = 3

// takeName makes the pipeline the owner of one name, unless it has another one.
func takeName(ctx context.Context, owners mongox.Collection, name OwnedName, logger zerolog.Logger) error {
	for range takeAttempts {
		_, err := owners.InsertOne(ctx, owned{ID: name.ID(), Owner: name.Owner, Since: time.Now()})
		switch {
		case err == nil:
			logger.Info().Str("name", name.ID()).Msg("name had no owner; now owned by this pipeline")
			return nil
		case !mongo.IsDuplicateKeyError(err):
			return fmt.Errorf("own %s: %w", name.ID(), err)
		}
		// Another process, of this pipeline or of another, may have been faster.
		found, err := findOwner(ctx, owners, name)
		switch {
		case err != nil:
			return err
		case found == nil:
		case !sameOwner(found.Owner, name.Owner):
			return &ConflictError{[]Conflict{{OwnedName: name, Recorded: found.Owner}}}
		default:
			return nil
		}
	}
	return fmt.Errorf("own %s: %w", name.ID(), ErrUnsettled)
}
