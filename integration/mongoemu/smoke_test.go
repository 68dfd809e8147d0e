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

func start(t testing.TB, c mongoemu.Config) (*mongoemu.Server, *mongo.Client) {
	t.Helper()
	s, err := mongoemu.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := mongo.Connect(options.Client().ApplyURI(s.URI()).SetServerSelectionTimeout(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return s, client
}

func TestSmoke(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{})
	ctx := t.Context()
	coll := client.Database("db").Collection("events")
	cs, err := coll.Watch(ctx, mongo.Pipeline{{{Key: "$match", Value: bson.M{"operationType": "insert"}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cs.Close(ctx) }()
	if _, err := coll.InsertOne(ctx, bson.M{"_id": 1, "a": 1}); err != nil {
		t.Fatal(err)
	}
	r, err := coll.UpdateOne(ctx, bson.M{"_id": 1}, bson.M{"$inc": bson.M{"a": 2}})
	if err != nil || r.ModifiedCount != 1 {
		t.Fatal(r, err)
	}
	var d bson.M
	if err := coll.FindOne(ctx, bson.M{"_id": 1}).Decode(&d); err != nil || d["a"] != int32(3) {
		t.Fatal(d, err)
	}
	if !cs.Next(ctx) {
		t.Fatal(cs.Err())
	}
	t.Log(cs.Current)
	sess, err := client.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer sess.EndSession(ctx)
	_, err = sess.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		return coll.InsertOne(ctx, bson.M{"_id": 2})
	})
	if err != nil {
		t.Fatal(err)
	}
	if !cs.Next(ctx) {
		t.Fatal(cs.Err())
	}
	t.Log(cs.Current)
}
