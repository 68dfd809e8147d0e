package catalog

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Shadows creates and renames the collections in which generations are built. The role
// readWrite is enough, except for sharded collections.
type Shadows struct {
	db *mongo.Database
}

// NewShadows makes a store for a database of read models. A majority confirms changes of
// collections ([mongox.Change]).
func NewShadows(db *mongo.Database) *Shadows { return &Shadows{db} }

// Prepare creates the shadow collection, if it does not exist, with the options, the
// indexes and the shard key of the collection like, if that exists, but without its default
// collation. It returns the shadow's UUID. An existing shadow gets what has changed since it
// was created: the validator and the indexes. That can take as long as the indexes are built.
// Prepare fails while the collection like has zones.
func (s *Shadows) Prepare(ctx context.Context, shadow, like string) (bson.Binary, error) {
	model, err := s.specification(ctx, like)
	if err != nil {
		return bson.Binary{}, err
	}
	var options []bson.E
	if model != nil {
		elements, err := model.Options.Elements()
		if err != nil {
			return bson.Binary{}, fmt.Errorf("read the options of collection %s: %w", like, err)
		}
		for _, element := range elements {
			// Under a collation, different ids could be equal. The indexes keep theirs.
			if element.Key() != "collation" {
				options = append(options, bson.E{Key: element.Key(), Value: element.Value()})
			}
		}
	}
	if err := mongox.CreateCollection(ctx, s.db, shadow, options...); err != nil {
		return bson.Binary{}, err
	}
	made, err := s.specification(ctx, shadow)
	switch {
	case err != nil:
		return bson.Binary{}, err
	case made == nil || made.UUID == nil:
		return bson.Binary{}, fmt.Errorf("collection %s was created and has no UUID: MongoDB 6.0 or later is needed", shadow)
	case model == nil:
		return *made.UUID, nil
	}
	if err := s.copyChanges(ctx, made, model); err != nil {
		return bson.Binary{}, err
	}
	// Create the indexes before sharding, which otherwise creates an index for the shard
	// key with another name.
	if err := s.copyIndexes(ctx, shadow, like); err != nil {
		return bson.Binary{}, err
	}
	return *made.UUID, s.copySharding(ctx, shadow, like)
}

// specification returns the specification of a collection; nil if it does not exist.
func (s *Shadows) specification(ctx context.Context, name string) (*mongo.CollectionSpecification, error) {
	found, err := s.db.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: name}})
	switch {
	case err != nil:
		return nil, fmt.Errorf("look up collection %s: %w", name, err)
	case len(found) == 0:
		return nil, nil
	}
	return &found[0], nil
}

// changeable are the options of a collection that can change while it exists, with the
// server's defaults.
var changeable = bson.D{
	{Key: "validator", Value: bson.D{}}, {Key: "validationLevel", Value: "strict"}, {Key: "validationAction", Value: "error"},
	{Key: "changeStreamPreAndPostImages", Value: bson.D{{Key: "enabled", Value: false}}},
}

// copyChanges gives a shadow the options of its model that have changed since it was
// created.
func (s *Shadows) copyChanges(ctx context.Context, shadow, model *mongo.CollectionSpecification) error {
	change := bson.D{{Key: "collMod", Value: shadow.Name}}
	for _, option := range changeable {
		have, err := optionOf(shadow, option)
		if err != nil {
			return err
		}
		want, err := optionOf(model, option)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(have, want) {
			change = append(change, want)
		}
	}
	if len(change) == 1 {
		return nil
	}
	if err := mongox.Change(ctx, s.db, change); err != nil {
		return fmt.Errorf("give collection %s the options of %s: %w", shadow.Name, model.Name, err)
	}
	return nil
}

// optionOf returns an option with the value that it has for a collection.
func optionOf(of *mongo.CollectionSpecification, option bson.E) (bson.E, error) {
	if value := of.Options.Lookup(option.Key); value.Type != 0 {
		if err := value.Unmarshal(&option.Value); err != nil {
			return option, fmt.Errorf("read the option %s of collection %s: %w", option.Key, of.Name, err)
		}
	}
	return option, nil
}

// copyIndexes gives a shadow exactly the indexes of its model.
func (s *Shadows) copyIndexes(ctx context.Context, shadow, like string) error {
	want, err := s.indexes(ctx, like)
	if err != nil {
		return err
	}
	have, err := s.indexes(ctx, shadow)
	if err != nil {
		return err
	}
	for _, index := range have {
		if i := slices.IndexFunc(want, func(w bson.M) bool { return reflect.DeepEqual(w, index) }); i >= 0 {
			want = slices.Delete(want, i, i+1)
			continue
		}
		if err := mongox.Change(ctx, s.db, bson.D{{Key: "dropIndexes", Value: shadow}, {Key: "index", Value: index["name"]}}); err != nil {
			return fmt.Errorf("drop the index %s of collection %s, which differs from that of %s: %w", index["name"], shadow, like, err)
		}
	}
	if len(want) == 0 {
		return nil
	}
	if err := mongox.Change(ctx, s.db, bson.D{{Key: "createIndexes", Value: shadow}, {Key: "indexes", Value: want}}); err != nil {
		return fmt.Errorf("create the indexes of collection %s on %s: %w", like, shadow, err)
	}
	return nil
}

// indexes returns the specifications of a collection's indexes, without the ones that each
// collection has.
func (s *Shadows) indexes(ctx context.Context, collection string) ([]bson.M, error) {
	of := s.db.Collection(collection)
	found, err := mongox.All[bson.M](ctx, of)(of.Indexes().List(ctx))
	if err != nil {
		return nil, fmt.Errorf("list the indexes of collection %s: %w", collection, err)
	}
	for _, index := range found {
		delete(index, "ns") // Old servers list the namespace, which createIndexes does not accept.
	}
	// A clustered index can have any name. It is an option of the collection, so it exists
	// already.
	return slices.DeleteFunc(found, func(index bson.M) bool { return index["name"] == "_id_" || index["clustered"] == true }), nil
}

// Names returns the names of all collections, by their UUIDs.
func (s *Shadows) Names(ctx context.Context) (map[string]string, error) {
	found, err := s.db.ListCollectionSpecifications(ctx, bson.D{})
	if err != nil {
		return nil, fmt.Errorf("list the collections of database %s: %w", s.db.Name(), err)
	}
	names := make(map[string]string, len(found))
	for _, c := range found {
		if c.UUID != nil {
			names[string(c.UUID.Data)] = c.Name
		}
	}
	return names, nil
}

// Where returns the name of the collection with the UUID; empty if there is none.
func (s *Shadows) Where(ctx context.Context, uuid bson.Binary) (string, error) {
	found, err := s.db.ListCollectionSpecifications(ctx, bson.D{{Key: "info.uuid", Value: uuid}})
	switch {
	case err != nil:
		return "", fmt.Errorf("look for a collection of database %s by its UUID: %w", s.db.Name(), err)
	case len(found) == 0:
		return "", nil
	}
	return found[0].Name, nil
}

// Rename renames a collection. If a collection with the new name exists, it is dropped in
// the same operation if drop is set; otherwise nothing is renamed. A missing collection
// from is not an error.
func (s *Shadows) Rename(ctx context.Context, from, to string, drop bool) error {
	err := mongox.Change(ctx, s.admin(), bson.D{
		{Key: "renameCollection", Value: s.namespace(from)}, {Key: "to", Value: s.namespace(to)}, {Key: "dropTarget", Value: drop},
	})
	if err != nil && !mongox.HasCode(err, mongox.CodeNamespaceNotFound) && (drop || !mongox.HasCode(err, mongox.CodeNamespaceExists)) {
		return fmt.Errorf("rename collection %s to %s: %w", from, to, err)
	}
	return nil
}

// UUID returns the UUID of a collection; nil if it does not exist.
func (s *Shadows) UUID(ctx context.Context, name string) (*bson.Binary, error) {
	found, err := s.specification(ctx, name)
	if err != nil || found == nil {
		return nil, err
	}
	return found.UUID, nil
}

// DropExactly drops a collection if it still has the UUID, and reports whether there is none
// with the name any more. It leaves a collection that has got the name meanwhile. A drop is
// sent again if its confirmation takes long, and then finds no collection.
func (s *Shadows) DropExactly(ctx context.Context, name string, uuid bson.Binary) (bool, error) {
	err := mongox.Change(ctx, s.db, bson.D{{Key: "drop", Value: name}, {Key: "collectionUUID", Value: uuid}})
	switch {
	case mongox.HasCode(err, mongox.CodeUUIDMismatch), mongox.HasCode(err, mongox.CodeNamespaceNotFound):
		left, err := s.UUID(ctx, name)
		return err == nil && left == nil, err
	case err != nil:
		return false, fmt.Errorf("drop collection %s: %w", name, err)
	}
	return true, nil
}

// Drop drops a collection, if it exists.
func (s *Shadows) Drop(ctx context.Context, name string) error {
	return mongox.DropCollection(ctx, s.db, name)
}
