package mongox

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// ShardKey is the shard key of a collection.
type ShardKey struct {
	Key    bson.D `bson:"key"`
	Unique bool   `bson:"unique"`
	// Dropped and Unsplittable are set for collections that are not sharded.
	Dropped      bool `bson:"dropped"`
	Unsplittable bool `bson:"unsplittable"`
}

// ShardKeyOf reads the shard key of a collection in a sharded cluster; nil if the collection is not
// sharded. If it is, the user needs the role clusterMonitor.
func ShardKeyOf(ctx context.Context, collection *mongo.Collection) (*ShardKey, error) {
	db := collection.Database()
	var key ShardKey
	err := db.Client().Database("config").Collection("collections").FindOne(ctx, bson.D{{Key: "_id", Value: db.Name() + "." + collection.Name()}}).Decode(&key)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments), err == nil && (key.Dropped || key.Unsplittable):
		return nil, nil
	case err == nil:
		return &key, nil
	}
	if HasCode(err, CodeUnauthorized) {
		// A user with only the role readWrite can find out in this way that there is no shard
		// key.
		stats, failed := db.RunCommand(ctx, bson.D{{Key: "collStats", Value: collection.Name()}}).Raw()
		if sharded, known := stats.Lookup("sharded").BooleanOK(); known && !sharded || HasCode(failed, CodeNamespaceNotFound) {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("read the shard key of collection %s.%s: %w; give the user the role clusterMonitor", db.Name(), collection.Name(), err)
}
