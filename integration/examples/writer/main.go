package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		os.Exit(1)
	}
}

// orderPlaced and itemAdded are the payloads of the two events.
type (
	orderPlaced struct {
		UserID string `bson:"userId"`
	}
	itemAdded struct {
		SKU        string `bson:"sku"`
		Quantity   int64  `bson:"quantity"`
		PriceCents int64  `bson:"priceCents"`
	}
)

// run places the order, or adds an item to it.
func run(ctx context.Context, args []string) error {
	uri := os.Getenv("MONGODB_URI")
	if len(args) != 1 || uri == "" {
		return errors.New("set MONGODB_URI, and give the id of an order: writer order-4711")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetAppName("writer"))
	if err != nil {
		return fmt.Errorf("connect to MongoDB: %w", err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	// The variables and defaults of the publisher, which reads the same collection.
	database := cmp.Or(os.Getenv("PENSTOCK_EVENTS_DATABASE"), "penstock")
	collection := cmp.Or(os.Getenv("PENSTOCK_EVENTS_COLLECTION"), "events")
	store, err := OpenStore(ctx, client.Database(database).Collection(collection))
	if err != nil {
		return err
	}
	version, err := addItem(ctx, store, args[0])
	if err != nil {
		return err
	}
	fmt.Printf("%s has %d events\n", args[0], version)
	return nil
}

// maxAttempts bounds how often a command decides again after a conflict.
const maxAttempts = 10

// addItem adds an item to an order, and places the order if it is new. It decides by what
// the event store has, and decides again if another writer was faster.
func addItem(ctx context.Context, store *Store, orderID string) (int64, error) {
	item := Event{Type: "ItemAddedToOrderEvent", Payload: itemAdded{SKU: "tea", Quantity: 2, PriceCents: 450}}
	for attempt := 1; ; attempt++ {
		version, err := store.Version(ctx, orderID)
		if err != nil {
			return 0, err
		}
		events := []Event{item}
		if version == 0 {
			events = []Event{{Type: "OrderPlacedEvent", Payload: orderPlaced{UserID: "ada"}}, item}
		}
		version, err = store.Append(ctx, "Order", orderID, version, events...)
		if !errors.Is(err, ErrConflict) || attempt == maxAttempts {
			return version, err
		}
	}
}
