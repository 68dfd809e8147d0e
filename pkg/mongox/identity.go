package mongox

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Cluster identifies the deployment of a connection, as far as every user may read it. Two
// deployments can have the same name, so equal names do not prove that they are one.
type Cluster struct {
	// Name is "replica set NAME" or "sharded cluster".
	Name string
	// Hosts are the members of a replica set, sorted. They are empty for a sharded cluster,
	// because its routers name no members.
	Hosts []string
}

// shardedCluster is the name of every sharded cluster: its id is in the database config,
// which ordinary users may not read.
const shardedCluster = "sharded cluster"

// Sharded reports whether the deployment is a sharded cluster, reached through mongos.
func (c Cluster) Sharded() bool { return c.Name == shardedCluster }

// ClusterOf asks the primary for its deployment. The context should have no deadline: see
// [Timeout].
func ClusterOf(ctx context.Context, client *mongo.Client) (Cluster, error) {
	var hello struct {
		SetName string   `bson:"setName"`
		Hosts   []string `bson:"hosts"`
	}
	err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	if err != nil {
		return Cluster{}, fmt.Errorf("ask MongoDB for its replica set: %w", err)
	}
	if hello.SetName == "" {
		return Cluster{Name: shardedCluster}, nil
	}
	slices.Sort(hello.Hosts)
	return Cluster{Name: "replica set " + hello.SetName, Hosts: hello.Hosts}, nil
}

// CollectionID distinguishes a collection from every other one, even from a later one with
// the same name: the UUID that the server gave it, in hexadecimal digits.
type CollectionID struct {
	// Exists reports whether there is a collection of that name.
	Exists bool
	// UUID is empty if the collection does not exist, or if the server has no UUIDs.
	UUID string
}

// IdentifyCollection reads the UUID of a collection. This needs the right listCollections,
// which the role read has. The context should have no deadline: see [Timeout].
func IdentifyCollection(ctx context.Context, collection *mongo.Collection) (CollectionID, error) {
	type listed struct {
		Info struct {
			UUID bson.RawValue `bson:"uuid"`
		} `bson:"info"`
	}
	found, err := All[listed](ctx, collection)(collection.Database().ListCollections(ctx, bson.D{{Key: "name", Value: collection.Name()}}))
	if err != nil {
		return CollectionID{}, fmt.Errorf("list collection %s.%s: %w", collection.Database().Name(), collection.Name(), err)
	}
	if len(found) == 0 {
		return CollectionID{}, nil
	}
	id := CollectionID{Exists: true}
	if _, data, ok := found[0].Info.UUID.BinaryOK(); ok {
		id.UUID = hex.EncodeToString(data)
	}
	return id, nil
}
