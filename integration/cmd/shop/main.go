// Command shop writes the events of a small shop into an event store, at a steady rate and
// until a signal ends it. It is the writer of integration/compose.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/cmd/internal/program"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

var info = cli.Info{
	Name:        "shop",
	Description: "Write the events of a small shop into an event store, until a signal ends it. After a restart it continues where it was.",
}

// config holds the flags. The names of the database and the collection are the publisher's.
type config struct {
	MongoURI   string `help:"Connection string of MongoDB." env:"MONGODB_URI" required:"" secret:""`
	Database   string `help:"Database of the events." env:"PENSTOCK_EVENTS_DATABASE" default:"penstock"`
	Collection string `help:"Collection of the events." env:"PENSTOCK_EVENTS_COLLECTION" default:"events"`
	Rate       int    `help:"Events per second." env:"SHOP_RATE" default:"20"`
	Count      int    `help:"Number of events after which the shop ends." env:"SHOP_EVENTS" default:"1000000"`
	Seed       uint64 `help:"Seed of the events: the same seed gives the same events." default:"1"`
}

// Validate returns every problem of the flags at once.
func (c *config) Validate() error {
	var errs []error
	if c.Rate < 1 || c.Rate > 1000 {
		errs = append(errs, errors.New("--rate must be between 1 and 1000 events per second"))
	}
	if c.Count < 1 {
		errs = append(errs, errors.New("--count must be at least 1"))
	}
	return errors.Join(errs...)
}

func main() { program.Main(info.Name, run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var c config
	if _, err := cli.Parse(&c, info, args, os.LookupEnv, stdout, stderr); err != nil {
		return err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(c.MongoURI).SetAppName(info.Name))
	if err != nil {
		return fmt.Errorf("connect to MongoDB: %w", err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	if err := c.write(ctx, client.Database(c.Database).Collection(c.Collection), stdout); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// write stores the events that the collection does not have yet. The events of a seed are
// always the same, so their number says which is next.
func (c *config) write(ctx context.Context, events *mongo.Collection, stdout io.Writer) error {
	_, err := events.Indexes().CreateOne(ctx, workload.Index())
	if err != nil {
		return fmt.Errorf("create the index of the events: %w", err)
	}
	stored, err := events.CountDocuments(ctx, bson.D{})
	if err != nil {
		return fmt.Errorf("count the events: %w", err)
	}
	_, _ = fmt.Fprintf(stdout, "%d events are stored, %d more follow at %d/s\n", stored, max(0, int64(c.Count)-stored), c.Rate)
	tick := time.NewTicker(time.Second / time.Duration(c.Rate))
	defer tick.Stop()
	for _, event := range shop.New(c.Count, c.Seed).Events[min(stored, int64(c.Count)):] {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		event.Timestamp = time.Now()
		if _, err := events.InsertOne(ctx, event); err != nil {
			return fmt.Errorf("store an event: %w", err)
		}
	}
	return nil
}
