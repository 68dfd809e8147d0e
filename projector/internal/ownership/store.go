package ownership

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

// CollectionName is the collection of the owners.
const CollectionName = "pipeline_owners"

// ErrUnsettled says that the owner of a name has come and gone while it was read, as while a
// replica set elects its primary. A later attempt succeeds.
var ErrUnsettled = errors.New("its owner was there and gone several times; the replica set may be electing its primary")

// Owners returns the collection pipeline_owners of db. A majority confirms each write,
// and reads go to the primary.
func Owners(db *mongo.Database) *mongo.Collection {
	return mongox.Durable(db, CollectionName)
}

// Place is a database in which names could collide, with these names.
type Place struct {
	Owners mongox.Collection
	Names  []Name
}

// owned is a stored owner.
type owned struct {
	ID    string    `bson:"_id"`
	Owner []Field   `bson:"owner"`
	Since time.Time `bson:"since"`
	// Adopted is set if the owner has taken the name over.
	Adopted *takeover `bson:"adopted,omitempty"`
}

// takeover is the takeover of a name. A takeover of several names that was interrupted
// continues with its code.
type takeover struct {
	Code string  `bson:"code"`
	From []Field `bson:"from"`
}

// Take makes the pipeline the owner of all names. The MongoDB user must be able to read
// and write the collections of owners. Take fails with [ErrOwned] if another pipeline
// owns some of the names and adopt is not the code in that error; then it has changed
// nothing. The code of a takeover that was interrupted finishes it. Any other error is
// [ErrUnsettled] or MongoDB's. The context should have no deadline of its own.
func Take(ctx context.Context, places []Place, adopt string, logger zerolog.Logger) error {
	found, err := compare(ctx, places, adopt)
	if err != nil {
		return err
	}
	if err := found.refusal(adopt); err != nil {
		return err
	}
	if len(found.conflicts) > 0 {
		logger.Warn().Str("names", newConflictError(found.conflicts).Error()).Msg("names adopted from another pipeline, as configured")
	}
	for _, place := range places {
		for _, name := range place.Names {
			if err := take(ctx, place.Owners, name, found.conflicts, adopt, logger); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check fails with [ErrOwned] if [Take] would, and changes nothing. Otherwise it returns the
// names that have no owner yet. Any other error is MongoDB's.
func Check(ctx context.Context, places []Place, adopt string) (unowned []Name, err error) {
	found, err := compare(ctx, places, adopt)
	if err != nil {
		return nil, err
	}
	return found.unowned, found.refusal(adopt)
}

// comparison is how the stored owners of names differ from the pipeline.
type comparison struct {
	// unowned are the names without an owner.
	unowned []Name
	// conflicts are the names that another pipeline owns. all also has those that were taken
	// over with the code adopt: together they are the takeover that the code allows.
	conflicts, all []Conflict
}

// compare reads the owners of all names.
func compare(ctx context.Context, places []Place, adopt string) (c comparison, err error) {
	for _, place := range places {
		for _, name := range place.Names {
			found, err := find(ctx, place.Owners, name)
			switch {
			case err != nil:
				return comparison{}, err
			case found == nil:
				c.unowned = append(c.unowned, name)
			case !same(found.Owner, name.Owner):
				conflict := Conflict{Name: name, Recorded: found.Owner}
				c.conflicts, c.all = append(c.conflicts, conflict), append(c.all, conflict)
			case found.Adopted != nil && found.Adopted.Code == adopt:
				c.all = append(c.all, Conflict{Name: name, Recorded: found.Adopted.From})
			}
		}
	}
	return c, nil
}

// refusal returns the error [ErrOwned] if there are conflicts that the code does not allow.
func (c comparison) refusal(adopt string) error {
	if len(c.conflicts) == 0 || adopt == newConflictError(c.all).Adoption {
		return nil
	}
	return newConflictError(c.conflicts)
}

// find returns the stored owner of a name; nil if it has none.
func find(ctx context.Context, owners mongox.Collection, name Name) (*owned, error) {
	var found owned
	err := owners.FindOne(ctx, bson.D{{Key: "_id", Value: name.id()}}).Decode(&found)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the owner of %s: %w", name.id(), err)
	}
	return &found, nil
}

// Recorded returns the stored owner of a name, and the one from which that has taken the name
// over; nil if there is none.
func Recorded(ctx context.Context, owners mongox.Collection, kind, name string) (owner, former []Field, err error) {
	found, err := find(ctx, owners, Name{Kind: kind, Name: name})
	if err != nil || found == nil {
		return nil, nil, err
	}
	if found.Adopted != nil {
		former = found.Adopted.From
	}
	return found.Owner, former, nil
}

// takeAttempts bounds the attempts to own a name. An attempt fails if the owner is gone
// between the insert that it refuses and the read of it: a new primary has rolled it back, or
// somebody deletes owners.
const takeAttempts = 3

// take makes the pipeline the owner of one name. The name must have no owner, or be one
// of the conflicts and still have the owner of that conflict.
func take(ctx context.Context, owners mongox.Collection, name Name, conflicts []Conflict, code string, logger zerolog.Logger) error {
	now := time.Now()
	for range takeAttempts {
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
				bson.D{{Key: "$set", Value: bson.D{{Key: "owner", Value: name.Owner}, {Key: "since", Value: now}, {Key: "adopted", Value: takeover{Code: code, From: c.Recorded}}}}})
			if err != nil {
				return fmt.Errorf("own %s: %w", name.id(), err)
			}
		}
		// Another process, of this pipeline or of another, may have been faster.
		found, err := find(ctx, owners, name)
		switch {
		case err != nil:
			return err
		case found == nil:
		case !same(found.Owner, name.Owner):
			return newConflictError([]Conflict{{Name: name, Recorded: found.Owner}})
		default:
			return nil
		}
	}
	return fmt.Errorf("own %s: %w", name.id(), ErrUnsettled)
}
