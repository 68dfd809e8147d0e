package readmodel

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// ErrLayout says that a collection cannot hold read models, and gives the remedy.
var ErrLayout = errors.New("the collection cannot hold read models")

// maxNamespace bounds the bytes of <database>.<collection>, also of a sharded collection:
// https://www.mongodb.com/docs/manual/reference/limits/#mongodb-limit-Namespace-Length
const maxNamespace = 235

// CheckLayout checks whether documents of the projections' collections, and of the
// watermarks, are found and unique by the bytes of _id, and stay until a projector deletes
// them. Views, time series, capped and encrypted collections, and collections with a default
// collation, a TTL or another shard key do not fulfil that. The error has all of them, each
// as an [ErrLayout]. Any other error is the server's.
func CheckLayout(ctx context.Context, db *mongo.Database, collections []string) error {
	all := append([]string{watermarksCollection}, collections...)
	found, problems, err := checkKinds(ctx, db, all)
	if err != nil {
		return err
	}
	for _, name := range collections {
		if n := len(db.Name()) + 1 + len(name); n > maxNamespace {
			problems = append(problems, refused(db, name, fmt.Sprintf("has a name of %d bytes with its database, and MongoDB takes at most %d: give the projection a collection with a shorter name", n, maxNamespace)))
		}
	}
	for _, c := range found {
		if c.Options.Lookup("collation").Type != 0 {
			problems = append(problems, refused(db, c.Name, "has a default collation, under which different ids can be equal; give the projection another collection, and the collation to its indexes and queries"))
		}
	}
	cluster, err := mongox.ClusterOf(ctx, db.Client())
	if err != nil {
		return err
	}
	if cluster.Sharded() {
		sharded, err := checkShardKeys(ctx, db, all)
		if err != nil {
			return err
		}
		problems = append(problems, sharded...)
	}
	return errors.Join(problems...)
}

// CheckModel checks whether a new collection can have the layout of an existing one. It is
// [CheckLayout] without what the new collection does not get, or has been checked before: a
// default collation, and the shard key.
func CheckModel(ctx context.Context, db *mongo.Database, collection string) error {
	_, problems, err := checkKinds(ctx, db, []string{collection})
	return errors.Join(append(problems, err)...)
}

func refused(db *mongo.Database, collection, why string) error {
	return fmt.Errorf("%w: %s.%s %s", ErrLayout, db.Name(), collection, why)
}

// checkKinds finds collections that are not ordinary collections, or whose documents expire
// or are encrypted.
func checkKinds(ctx context.Context, db *mongo.Database, collections []string) (found []mongo.CollectionSpecification, problems []error, err error) {
	found, err = db.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: bson.D{{Key: "$in", Value: collections}}}})
	if err != nil {
		return nil, nil, fmt.Errorf("list the collections of database %s: %w", db.Name(), err)
	}
	for _, c := range found {
		kind := c.Type
		if capped, _ := c.Options.Lookup("capped").BooleanOK(); capped {
			kind = "capped collection"
		}
		if kind != "collection" && kind != "" {
			problems = append(problems, refused(db, c.Name, "is a "+kind+"; give the projection an ordinary collection"))
			continue
		}
		if c.Options.Lookup("encryptedFields").Type != 0 {
			problems = append(problems, refused(db, c.Name, "has encrypted fields, so MongoDB does not rename it; give the projection an ordinary collection"))
		}
		ttl, err := ttlOf(ctx, db, &c)
		if err != nil {
			return nil, nil, err
		}
		if ttl != "" {
			problems = append(problems, refused(db, c.Name, "has a TTL (its "+ttl+"): an expired read model would be created again by the next event of its aggregate; remove the TTL, and let an event delete the read model"))
		}
	}
	return found, problems, nil
}

// ttlOf names what makes documents of a collection expire; empty if nothing does.
func ttlOf(ctx context.Context, db *mongo.Database, c *mongo.CollectionSpecification) (string, error) {
	const option = "expireAfterSeconds"
	if c.Options.Lookup(option).Type != 0 {
		return "option " + option, nil
	}
	cursor, err := db.Collection(c.Name).Indexes().List(ctx)
	var indexes []bson.Raw
	if err == nil {
		err = cursor.All(ctx, &indexes)
	}
	if err != nil {
		return "", fmt.Errorf("list the indexes of collection %s: %w", c.Name, err)
	}
	for _, index := range indexes {
		if index.Lookup(option).Type != 0 {
			name, _ := index.Lookup("name").StringValueOK()
			return "index " + name, nil
		}
	}
	return "", nil
}

// SearchIndexes returns the names of the Atlas Search indexes of a collection. They belong to
// Atlas, so a new collection does not get them. A server that refuses the question has none.
func SearchIndexes(ctx context.Context, db *mongo.Database, collection string) ([]string, error) {
	cursor, err := db.Collection(collection).Aggregate(ctx, bson.A{bson.D{{Key: "$listSearchIndexes", Value: bson.D{}}}})
	var found []struct{ Name string }
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	var names []string
	for _, index := range found {
		names = append(names, index.Name)
	}
	if err != nil && mongox.Transient(err) {
		return nil, fmt.Errorf("list the search indexes of collection %s: %w", collection, err)
	}
	return names, nil
}

// checkShardKeys finds the collections of a sharded cluster whose shard key is not _id.
func checkShardKeys(ctx context.Context, db *mongo.Database, collections []string) (problems []error, err error) {
	for _, collection := range collections {
		shard, err := mongox.ShardKeyOf(ctx, db.Collection(collection))
		if err != nil {
			return nil, err
		}
		if shard == nil || len(shard.Key) == 1 && shard.Key[0].Key == fieldID {
			continue
		}
		key, err := bson.MarshalExtJSON(shard.Key, false, false)
		if err != nil {
			return nil, fmt.Errorf("read the shard key of %s.%s: %w", db.Name(), collection, err)
		}
		problems = append(problems, refused(db, collection, "is sharded by "+string(key)+", so that two shards could each have a document of one aggregate; shard it by {_id: 1} or {_id: \"hashed\"}, or not at all"))
	}
	return problems, nil
}
