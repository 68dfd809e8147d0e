package mongoemu_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

func TestMongosHello(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{Sharded: true})
	if want := "mongodb://" + s.Address() + "/"; s.URI() != want {
		t.Errorf("its URI is %s, want %s", s.URI(), want)
	}
	hello := must[bson.Raw](t)(client.Database("admin").RunCommand(t.Context(), d("hello", 1)).Raw())
	if hello.Lookup("msg").StringValue() != "isdbgrid" || !hello.Lookup("isWritablePrimary").Boolean() {
		t.Errorf("hello is %v", hello)
	}
	for _, field := range []string{"setName", "hosts", "primary", "me", "lastWrite", "secondary"} {
		if _, err := hello.LookupErr(field); err == nil {
			t.Errorf("a mongos gives %s", field)
		}
	}
}

func TestMongosRefusesReplicaSetCommands(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{Sharded: true})
	err := client.Database("admin").RunCommand(t.Context(), d("replSetGetStatus", 1)).Err()
	wantCode(t, err, 125, "not supported through mongos")
	wantCode(t, client.Database("local").Collection("oplog.rs").FindOne(t.Context(), d()).Err(), 13644, "can't use 'local'")
	_, replicaSet := start(t, mongoemu.Config{})
	wantCode(t, replicaSet.Database("admin").RunCommand(t.Context(), d("shardCollection", "db.c", "key", d("a", 1))).Err(), 59, "no such command")
}

func TestUniqueIndexNeedsTheShardKeyAsPrefix(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{Sharded: true})
	events := client.Database("db").Collection("c")
	index := func(unique bool, keys ...any) error {
		_, err := events.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d(keys...), Options: options.Index().SetUnique(unique)})
		return err
	}
	shard := func(keys ...any) error {
		return client.Database("admin").RunCommand(t.Context(), d("shardCollection", "db.c", "key", d(keys...))).Err()
	}
	if err := index(true, "aggregateId", 1, "eventId", 1); err != nil {
		t.Fatal(err)
	}
	wantCode(t, shard("tenant", 1), 72, "Uniqueness can't be maintained")
	if err := shard("aggregateId", 1); err != nil {
		t.Fatal(err)
	}
	wantCode(t, index(true, "tenant", 1), 67, "with shard key pattern")
	if err := events.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := shard("tenant", 1); err != nil {
		t.Fatal(err)
	}
	wantCode(t, index(true, "aggregateId", 1, "eventId", 1), 67, "with shard key pattern")
	if err := index(false, "aggregateId", 1, "eventId", 1); err != nil {
		t.Error(err)
	}
	if err := index(true, "tenant", 1, "aggregateId", 1); err != nil {
		t.Error(err)
	}
}

func TestStreamsAndTransactionsThroughMongos(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{Sharded: true})
	c := client.Database("db").Collection("c")
	session := must[*mongo.Session](t)(client.StartSession())
	defer session.EndSession(t.Context())
	if _, err := c.InsertOne(mongo.NewSessionContext(t.Context(), session), d("_id", 1)); err != nil {
		t.Fatal(err)
	}
	at := session.OperationTime()
	stream := must[*mongo.ChangeStream](t)(c.Watch(t.Context(), mongo.Pipeline{},
		options.ChangeStream().SetStartAtOperationTime(at).SetMaxAwaitTime(100*time.Millisecond)))
	defer func() { _ = stream.Close(t.Context()) }()
	if !stream.Next(t.Context()) || stream.Current.Lookup("documentKey", "_id").AsInt64() != 1 {
		t.Fatalf("%v, %v", stream.Current, stream.Err())
	}
	token := stream.ResumeToken()
	_, err := session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		for id := range 3 {
			if _, err := c.InsertOne(ctx, d("_id", 10+id)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	resumed := must[*mongo.ChangeStream](t)(c.Watch(t.Context(), mongo.Pipeline{}, resumeAfter(token)))
	defer func() { _ = resumed.Close(t.Context()) }()
	for id := range 3 {
		if !resumed.Next(t.Context()) || resumed.Current.Lookup("documentKey", "_id").AsInt64() != int64(10+id) {
			t.Fatalf("%v, %v", resumed.Current, resumed.Err())
		}
	}
}
