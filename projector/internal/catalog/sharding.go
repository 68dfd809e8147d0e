package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

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

// zone is a range of shard keys in a zone, as in config.tags.
type zone struct {
	Min  bson.Raw `bson:"min"`
	Max  bson.Raw `bson:"max"`
	Name string   `bson:"tag"`
}

func (z zone) equal(other zone) bool {
	return z.Name == other.Name && bytes.Equal(z.Min, other.Min) && bytes.Equal(z.Max, other.Max)
}

// throughMongos reports whether the database is in a sharded cluster.
func (s *Shadows) throughMongos(ctx context.Context) (bool, error) {
	hello, err := s.admin().RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}, options.RunCmd().SetReadPreference(readpref.Primary())).Raw()
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
	// Set the zones before sharding, so that the server creates the first chunks on the
	// zones' shards.
	zones, err := s.zones(ctx, like)
	if err != nil {
		return err
	}
	if err := s.setZones(ctx, shadow, zones); err != nil {
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

// zones reads the zones of a collection.
func (s *Shadows) zones(ctx context.Context, collection string) ([]zone, error) {
	tags := s.db.Client().Database("config").Collection("tags")
	zones, err := mongox.All[zone](ctx, tags)(tags.Find(ctx, bson.D{{Key: "ns", Value: s.namespace(collection)}}))
	if err != nil {
		return nil, fmt.Errorf("read the zones of collection %s: %w; give the user the role clusterMonitor", collection, err)
	}
	return zones, nil
}

// setZones changes the zones of a collection to exactly the given ones.
func (s *Shadows) setZones(ctx context.Context, collection string, want []zone) error {
	have, err := s.zones(ctx, collection)
	if err != nil {
		return err
	}
	for _, z := range have {
		if !slices.ContainsFunc(want, z.equal) {
			if err := s.assign(ctx, collection, z, nil); err != nil {
				return err
			}
		}
	}
	for _, z := range want {
		if !slices.ContainsFunc(have, z.equal) {
			if err := s.assign(ctx, collection, z, z.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// assign adds a range to the zone with the name, or removes it from its zone if name is
// nil.
func (s *Shadows) assign(ctx context.Context, collection string, z zone, name any) error {
	err := s.admin().RunCommand(ctx, bson.D{
		{Key: "updateZoneKeyRange", Value: s.namespace(collection)}, {Key: "min", Value: z.Min}, {Key: "max", Value: z.Max}, {Key: "zone", Value: name},
	}).Err()
	if err != nil {
		return fmt.Errorf("set the zone %s of collection %s: %w; give the user the role clusterManager", z.Name, collection, err)
	}
	return nil
}

// renameOverZones repeats a rename that the server may have refused because the target
// has zones. Afterwards the collection has the zones of from, which the rename keeps.
func (s *Shadows) renameOverZones(ctx context.Context, from, to string, refused error) error {
	if mongos, err := s.throughMongos(ctx); err != nil || !mongos {
		return refused
	}
	zones, err := s.zones(ctx, to)
	if err != nil || len(zones) == 0 {
		return errors.Join(refused, err)
	}
	if err := s.setZones(ctx, to, nil); err != nil {
		return err
	}
	err = s.rename(ctx, from, to, true)
	if mongox.HasCode(err, mongox.CodeNamespaceNotFound) {
		// Another coordinator has renamed it meanwhile, so the removed zones were those
		// of the new collection.
		return s.setZones(ctx, to, zones)
	}
	return err
}
