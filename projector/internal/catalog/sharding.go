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

func (s *Shadows) admin() *mongo.Database { return s.db.Client().Database("admin") }

func (s *Shadows) namespace(collection string) string { return s.db.Name() + "." + collection }

// copySharding shards the shadow like the collection like, in a sharded cluster.
func (s *Shadows) copySharding(ctx context.Context, shadow, like string) error {
	if cluster, err := mongox.ClusterOf(ctx, s.db.Client()); err != nil || !cluster.Sharded() {
		return err
	}
	model, err := mongox.ShardKeyOf(ctx, s.db.Collection(like))
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
