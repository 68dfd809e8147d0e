package mongoemu_test

import (
	"context"
	"fmt"
	"log"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

func Example() {
	server, err := mongoemu.New(mongoemu.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)

	orders := client.Database("shop").Collection("orders")
	changes, err := orders.Watch(ctx, mongo.Pipeline{})
	if err != nil {
		log.Fatal(err)
	}
	defer changes.Close(ctx)
	if _, err := orders.InsertOne(ctx, bson.M{"_id": 4711}); err != nil {
		log.Fatal(err)
	}
	changes.Next(ctx)
	fmt.Println(changes.Current.Lookup("operationType").StringValue(), changes.Current.Lookup("documentKey", "_id"))
	// Output: insert {"$numberInt":"4711"}
}
