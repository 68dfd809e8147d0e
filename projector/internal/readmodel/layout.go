package readmodel

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// ErrLayout says that a collection cannot hold read models, and gives the remedy.
var ErrLayout = errors.New("the collection cannot hold read models")

// CheckLayout checks whether documents of the projections' collections, and of the
// watermarks, are found and unique by _id. Views, time series, capped collections and
// collections with another shard key do not fulfil that. The error has all of them, each as
// an [ErrLayout]. Any other error is the server's.
func CheckLayout(ctx context.Context, db *mongo.Database, collections []string) error {
	all := append([]string{watermarksCollection}, collections...)
	problems, err := checkKinds(ctx, db, all)
	if err != nil {
		return err
	}
	hello, err := db.Client().Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}, options.RunCmd().SetReadPreference(readpref.Primary())).Raw()
	if err != nil {
		return fmt.Errorf("ask MongoDB whether it is a sharded cluster: %w", err)
	}
	if message, _ := hello.Lookup("msg").StringValueOK(); message == "isdbgrid" {
		sharded, err := checkShardKeys(ctx, db, all)
		if err != nil {
			return err
		}
		problems = append(problems, sharded...)
	}
	return errors.Join(problems...)
}

// checkKinds finds collections that are not ordinary collections.
func checkKinds(ctx context.Context, db *mongo.Database, collections []string) (problems []error, err error) {
	found, err := db.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: bson.D{{Key: "$in", Value: collections}}}})
	if err != nil {
		return nil, fmt.Errorf("list the collections of database %s: %w", db.Name(), err)
	}
	for _, c := range found {
		kind := c.Type
		if capped, _ := c.Options.Lookup("capped").BooleanOK(); capped {
			kind = "capped collection"
		}
		if kind != "collection" && kind != "" {
			problems = append(problems, fmt.Errorf("%w: %s.%s is a %s; give the projection an ordinary collection", ErrLayout, db.Name(), c.Name, kind))
		}
	}
	return problems, nil
}

// checkShardKeys finds the collections of a sharded cluster whose shard key is not _id.
// Ordinary users may not read the cluster's configuration. Then the plan of a query by _id
// shows whether it goes to one shard or to all.
func checkShardKeys(ctx context.Context, db *mongo.Database, collections []string) (problems []error, err error) {
	refuse := func(collection, by string) {
		problems = append(problems, fmt.Errorf("%w: %s.%s is sharded by %s, so that two shards could each have a document of one aggregate; shard it by {_id: 1} or {_id: \"hashed\"}, or not at all",
			ErrLayout, db.Name(), collection, by))
	}
	for _, collection := range collections {
		var entry struct {
			Key          bson.D `bson:"key"`
			Dropped      bool   `bson:"dropped"`
			Unsplittable bool   `bson:"unsplittable"`
		}
		err := db.Client().Database("config").Collection("collections").
			FindOne(ctx, bson.D{{Key: "_id", Value: db.Name() + "." + collection}}).Decode(&entry)
		switch {
		case errors.Is(err, mongo.ErrNoDocuments):
		case mongox.HasCode(err, mongox.CodeUnauthorized):
			everywhere, err := asksAllShards(ctx, db, collection)
			if err != nil {
				return nil, err
			}
			if everywhere {
				refuse(collection, "something else than _id")
			}
		case err != nil:
			return nil, fmt.Errorf("read the shard key of %s.%s: %w", db.Name(), collection, err)
		case !entry.Dropped && !entry.Unsplittable && (len(entry.Key) != 1 || entry.Key[0].Key != fieldID):
			key, err := bson.MarshalExtJSON(entry.Key, false, false)
			if err != nil {
				return nil, fmt.Errorf("read the shard key of %s.%s: %w", db.Name(), collection, err)
			}
			refuse(collection, string(key))
		}
	}
	return problems, nil
}

// asksAllShards reports whether a query by _id goes to more than one shard.
func asksAllShards(ctx context.Context, db *mongo.Database, collection string) (bool, error) {
	plan, err := db.RunCommand(ctx, bson.D{
		{Key: "explain", Value: bson.D{{Key: "find", Value: collection}, {Key: "filter", Value: bson.D{{Key: fieldID, Value: ""}}}}},
		{Key: "verbosity", Value: "queryPlanner"},
	}, options.RunCmd().SetReadPreference(readpref.Primary())).Raw()
	if err != nil {
		return false, fmt.Errorf("explain a query of %s.%s by _id: %w", db.Name(), collection, err)
	}
	shards, ok := plan.Lookup("queryPlanner", "winningPlan", "shards").ArrayOK()
	if !ok {
		return false, nil
	}
	values, err := shards.Values()
	return len(values) > 1, err
}
