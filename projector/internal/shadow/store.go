package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Codes of the server.
const (
	codeNamespaceNotFound = 26
	codeNamespaceExists   = 48
)

// Store makes and renames the collections in which generations are built. It needs no more than the
// role readWrite, except to shard one.
type Store struct {
	db *mongo.Database
}

// NewStore makes the store of a database of read models. Changes of collections are
// confirmed by a majority.
func NewStore(db *mongo.Database) *Store {
	return &Store{db.Client().Database(db.Name(), options.Database().SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary()))}
}

// Prepare creates the shadow collection, if it does not exist, with the options, the
// indexes and the shard key of the collection like, if that exists. It gives the shadow's
// UUID.
func (s *Store) Prepare(ctx context.Context, shadow, like string) (bson.Binary, error) {
	model, err := s.specification(ctx, like)
	if err != nil {
		return bson.Binary{}, err
	}
	create := bson.D{{Key: "create", Value: shadow}}
	if model != nil {
		elements, err := model.Options.Elements()
		if err != nil {
			return bson.Binary{}, fmt.Errorf("read the options of collection %s: %w", like, err)
		}
		for _, element := range elements {
			create = append(create, bson.E{Key: element.Key(), Value: element.Value()})
		}
	}
	if err := s.db.RunCommand(ctx, create).Err(); err != nil && !mongox.HasCode(err, codeNamespaceExists) {
		return bson.Binary{}, fmt.Errorf("create collection %s: %w", shadow, err)
	}
	if model != nil {
		// The indexes come first: sharding makes one for the shard key under a name of its
		// own, if there is none.
		collated := collation(model)
		if err := s.copyIndexes(ctx, shadow, like, collated); err != nil {
			return bson.Binary{}, err
		}
		if err := s.copyShardKey(ctx, shadow, like, collated); err != nil {
			return bson.Binary{}, err
		}
	}
	made, err := s.specification(ctx, shadow)
	switch {
	case err != nil:
		return bson.Binary{}, err
	case made == nil || made.UUID == nil:
		return bson.Binary{}, fmt.Errorf("collection %s was created and has no UUID: MongoDB 6.0 or later is needed", shadow)
	}
	return *made.UUID, nil
}

// specification describes a collection; nil if there is none.
func (s *Store) specification(ctx context.Context, name string) (*mongo.CollectionSpecification, error) {
	found, err := s.db.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: name}})
	switch {
	case err != nil:
		return nil, fmt.Errorf("look up collection %s: %w", name, err)
	case len(found) == 0:
		return nil, nil
	}
	return &found[0], nil
}

// collation reports whether a collection has a default collation. Its indexes and its
// shard key have that one, unless they name another.
func collation(of *mongo.CollectionSpecification) bool {
	_, err := of.Options.LookupErr("collation")
	return err == nil
}

// simple is the collation that compares bytes, which the server does not list for an index.
var simple = bson.E{Key: "collation", Value: bson.D{{Key: "locale", Value: "simple"}}}

// copyIndexes creates the indexes of a collection on its shadow.
func (s *Store) copyIndexes(ctx context.Context, shadow, like string, collated bool) error {
	cursor, err := s.db.Collection(like).Indexes().List(ctx)
	if err != nil {
		return fmt.Errorf("list the indexes of collection %s: %w", like, err)
	}
	var found []bson.D
	if err := cursor.All(ctx, &found); err != nil {
		return fmt.Errorf("list the indexes of collection %s: %w", like, err)
	}
	var indexes bson.A
	for _, index := range found {
		// A clustered index is an option of the collection, and may have any name.
		if slices.Contains(index, bson.E{Key: "name", Value: "_id_"}) || slices.Contains(index, bson.E{Key: "clustered", Value: true}) {
			continue
		}
		// Old servers show the namespace, which createIndexes does not take.
		index = slices.DeleteFunc(index, func(e bson.E) bool { return e.Key == "ns" })
		if collated && !slices.ContainsFunc(index, func(e bson.E) bool { return e.Key == simple.Key }) {
			index = append(index, simple)
		}
		indexes = append(indexes, index)
	}
	if len(indexes) == 0 {
		return nil
	}
	if err := s.db.RunCommand(ctx, bson.D{{Key: "createIndexes", Value: shadow}, {Key: "indexes", Value: indexes}}).Err(); err != nil {
		return fmt.Errorf("create the indexes of collection %s on %s: %w", like, shadow, err)
	}
	return nil
}

// copyShardKey shards the shadow as the collection is, in a sharded cluster.
func (s *Store) copyShardKey(ctx context.Context, shadow, like string, collated bool) error {
	admin := s.db.Client().Database("admin")
	hello, err := admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}, options.RunCmd().SetReadPreference(readpref.Primary())).Raw()
	if err != nil {
		return fmt.Errorf("ask MongoDB whether it is a sharded cluster: %w", err)
	}
	if message, _ := hello.Lookup("msg").StringValueOK(); message != "isdbgrid" {
		return nil
	}
	var entry struct {
		Key          bson.D `bson:"key"`
		Dropped      bool   `bson:"dropped"`
		Unsplittable bool   `bson:"unsplittable"`
	}
	err = s.db.Client().Database("config").Collection("collections").FindOne(ctx, bson.D{{Key: "_id", Value: s.db.Name() + "." + like}}).Decode(&entry)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments), err == nil && (entry.Dropped || entry.Unsplittable):
		return nil
	case err != nil:
		return fmt.Errorf("read the shard key of collection %s, so that the collection of its next generation can have it: %w; give the user the role clusterMonitor", like, err)
	}
	shard := bson.D{{Key: "shardCollection", Value: s.db.Name() + "." + shadow}, {Key: "key", Value: entry.Key}}
	if collated {
		shard = append(shard, simple) // the server takes no other
	}
	if err := admin.RunCommand(ctx, shard).Err(); err != nil {
		return fmt.Errorf("shard collection %s as %s is: %w; give the user the right enableSharding on the database", shadow, like, err)
	}
	return nil
}

// Names gives the collections whose names start with prefix.
func (s *Store) Names(ctx context.Context, prefix string) ([]string, error) {
	names, err := s.db.ListCollectionNames(ctx, bson.D{{Key: "name", Value: bson.Regex{Pattern: "^" + regexp.QuoteMeta(prefix)}}})
	if err != nil {
		return nil, fmt.Errorf("list the collections of database %s: %w", s.db.Name(), err)
	}
	slices.Sort(names)
	return names, nil
}

// Where gives the name of the collection that has the UUID; empty if there is none.
func (s *Store) Where(ctx context.Context, uuid bson.Binary) (string, error) {
	found, err := s.db.ListCollectionSpecifications(ctx, bson.D{})
	if err != nil {
		return "", fmt.Errorf("list the collections of database %s: %w", s.db.Name(), err)
	}
	for _, c := range found {
		if c.UUID != nil && bytes.Equal(c.UUID.Data, uuid.Data) {
			return c.Name, nil
		}
	}
	return "", nil
}

// Rename gives a collection another name. drop says whether a collection of that name is
// dropped in the same instant; otherwise nothing happens if there is one. Nothing happens
// either if there is no collection from.
func (s *Store) Rename(ctx context.Context, from, to string, drop bool) error {
	err := s.db.Client().Database("admin", options.Database().SetWriteConcern(writeconcern.Majority())).RunCommand(ctx, bson.D{
		{Key: "renameCollection", Value: s.db.Name() + "." + from}, {Key: "to", Value: s.db.Name() + "." + to}, {Key: "dropTarget", Value: drop},
	}).Err()
	if err != nil && !mongox.HasCode(err, codeNamespaceNotFound) && (drop || !mongox.HasCode(err, codeNamespaceExists)) {
		return fmt.Errorf("rename collection %s to %s: %w", from, to, err)
	}
	return nil
}

// Drop drops a collection, if it exists.
func (s *Store) Drop(ctx context.Context, name string) error {
	if err := s.db.Collection(name).Drop(ctx); err != nil && !mongox.HasCode(err, codeNamespaceNotFound) {
		return fmt.Errorf("drop collection %s: %w", name, err)
	}
	return nil
}
