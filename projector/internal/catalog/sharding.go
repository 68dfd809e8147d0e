package catalog

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// codeCommandFailed is the error code of a rename over a collection with zones.
const codeCommandFailed = 125

// sharding is a collection's entry in config.collections.
type sharding struct {
	Key    bson.D `bson:"key"`
	Unique bool   `bson:"unique"`
	// Dropped and Unsplittable are set for collections that are not sharded.
	Dropped      bool `bson:"dropped"`
	Unsplittable bool `bson:"unsplittable"`
}

// throughMongos reports whether the database is in a sharded cluster.
func (s *Shadows) throughMongos(ctx context.Context) (bool, error) {
	hello, err := s.admin().RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
	if err != nil {
		return false, fmt.Errorf("ask MongoDB whether it is a sharded cluster: %w", err)
	}
	message, _ := hello.Lookup("msg").StringValueOK()
	return message == "isdbgrid", nil
}

func (s *Shadows) admin() *mongo.Database { return s.db.Client().Database("admin") }

func (s *Shadows) namespace(collection string) string { return s.db.Name() + "." + collection }

// copySharding shards the shadow like the collection like, in a sharded cluster.
func (s *Shadows) copySharding(ctx context.Context, shadow, like string) error {
	if mongos, err := s.throughMongos(ctx); err != nil || !mongos {
		return err
	}
	model, err := s.sharding(ctx, like)
	if err != nil || model == nil {
		return err
	}
	if err := s.refuseZones(ctx, like); err != nil {
		return err
	}
	if err := s.admin().RunCommand(ctx, bson.D{
		{Key: "shardCollection", Value: s.namespace(shadow)}, {Key: "key", Value: model.Key}, {Key: "unique", Value: model.Unique},
	}).Err(); err != nil {
		return fmt.Errorf("shard collection %s as %s is: %w; give the user the right enableSharding on the database", shadow, like, err)
	}
	return nil
}

// sharding returns the sharding of a collection; nil if it is not sharded.
func (s *Shadows) sharding(ctx context.Context, collection string) (*sharding, error) {
	var entry sharding
	err := s.db.Client().Database("config").Collection("collections").FindOne(ctx, bson.D{{Key: "_id", Value: s.namespace(collection)}}).Decode(&entry)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments), err == nil && (entry.Dropped || entry.Unsplittable):
		return nil, nil
	case err == nil:
		return &entry, nil
	}
	if mongox.HasCode(err, mongox.CodeUnauthorized) {
		// A user with only the role readWrite can find out in this way that there is no
		// shard key to copy.
		stats, failed := s.db.RunCommand(ctx, bson.D{{Key: "collStats", Value: collection}}).Raw()
		if sharded, known := stats.Lookup("sharded").BooleanOK(); failed == nil && known && !sharded {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("read the shard key of collection %s, so that the collection of its next generation can have it: %w; give the user the role clusterMonitor", collection, err)
}

// refuseZones fails if a collection has zones: MongoDB renames no collection over it.
func (s *Shadows) refuseZones(ctx context.Context, collection string) error {
	err := s.db.Client().Database("config").Collection("tags").FindOne(ctx, bson.D{{Key: "ns", Value: s.namespace(collection)}}).Err()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil
	case err != nil:
		return fmt.Errorf("read the zones of collection %s: %w; give the user the role clusterMonitor", collection, err)
	}
	return fmt.Errorf("collection %s has zones, and MongoDB cannot replace it: remove them (sh.removeRangeFromZone), and set them again when the new generation is live", collection)
}
