package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
var ErrUnsettled = errors.New("its owner record was there and is gone; the replica set may be electing its primary")

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
	unowned, err := CheckNames(ctx, places)
	if err != nil {
		return err
	}
	for _, place := range unowned {
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
func CheckNames(ctx context.Context, places []Place) (unowned []Place, err error) {
	var conflicts []Conflict
	for _, place := range places {
		owners, err := ownersOf(ctx, place)
		if err != nil {
			return nil, err
		}
		lacking := Place{Owners: place.Owners}
		for _, name := range place.Names {
			switch owner, ok := owners[name.ID()]; {
			case !ok:
				lacking.Names = append(lacking.Names, name)
			case !sameOwner(owner, name.Owner):
				conflicts = append(conflicts, Conflict{OwnedName: name, Recorded: owner})
			}
		}
		unowned = append(unowned, lacking)
	}
	if len(conflicts) > 0 {
		return nil, &ConflictError{conflicts}
	}
	return unowned, nil
}

// ownersOf returns the stored owners of the names, by the ids of their records.
func ownersOf(ctx context.Context, place Place) (map[string][]OwnerField, error) {
	ids := make([]string, len(place.Names))
	for i, name := range place.Names {
		ids[i] = name.ID()
	}
	found, err := mongox.All[owned](ctx, place.Owners)(place.Owners.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}))
	if err != nil {
		return nil, fmt.Errorf("read the owners of %s: %w", strings.Join(ids, ", "), err)
	}
	owners := make(map[string][]OwnerField, len(found))
	for _, o := range found {
		owners[o.ID] = o.Owner
	}
	return owners, nil
}

// OwnerOf returns the stored owner of a name; nil if there is none.
func OwnerOf(ctx context.Context, owners mongox.Collection, name OwnedName) ([]OwnerField, error) {
	found, err := ownersOf(ctx, Place{Owners: owners, Names: []OwnedName{name}})
	return found[name.ID()], err
}

// ReleaseName removes the owner of a name, if there is one.
func ReleaseName(ctx context.Context, owners mongox.Collection, name OwnedName) error {
	if _, err := owners.DeleteMany(ctx, bson.D{{Key: "_id", Value: name.ID()}}); err != nil {
		return fmt.Errorf("release %s: %w", name.ID(), err)
	}
	return nil
}

// takeName makes the pipeline the owner of a name that had none. Another process, of this pipeline
// or of another, may have been faster. The record that refuses the insert can be gone when it is
// read: a new primary has rolled it back, or somebody deletes owners.
func takeName(ctx context.Context, owners mongox.Collection, name OwnedName, logger zerolog.Logger) error {
	_, err := owners.InsertOne(ctx, owned{ID: name.ID(), Owner: name.Owner, Since: time.Now()})
	switch {
	case err == nil:
		logger.Info().Str("name", name.ID()).Msg("name had no owner; now owned by this pipeline")
		return nil
	case !mongo.IsDuplicateKeyError(err):
		return fmt.Errorf("own %s: %w", name.ID(), err)
	}
	unowned, err := CheckNames(ctx, []Place{{Owners: owners, Names: []OwnedName{name}}})
	if err == nil && len(unowned[0].Names) > 0 {
		err = fmt.Errorf("own %s: %w", name.ID(), ErrUnsettled)
	}
	return err
}
