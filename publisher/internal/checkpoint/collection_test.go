package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

// server is the MongoDB stand-in of this package's tests.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// collection is the collection checkpoints of a database of its own, with faults.
type collection struct {
	*mongotest.Collection
	tb testing.TB
	mu sync.Mutex
	// err is the error of every request; hang makes updates wait for their context.
	err  error
	hang bool
	// rivals is how many claims another process overtakes: it claims the checkpoint between
	// the claim's read and its update.
	rivals  int
	updates int
	// afterRead runs after each read.
	afterRead func()
}

var (
	errNetwork = errors.New("connection reset")
	// byStream selects the only checkpoint.
	byStream = bson.D{{Key: "_id", Value: "events"}}
)

func newCollection(t *testing.T) *collection {
	t.Helper()
	c := &collection{tb: t, Collection: server.Collection(checkpoint.Checkpoints(server.Database(t)))}
	c.Before, c.After = c.before, c.after
	return c
}

func (c *collection) before(ctx context.Context, request string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch request {
	case mongotest.UpdateOne:
		if c.hang {
			c.mu.Unlock()
			<-ctx.Done()
			c.mu.Lock()
			return ctx.Err()
		}
		c.updates++
	case mongotest.FindOneAndUpdate:
		if c.rivals > 0 {
			c.rivals--
			c.claimByRival()
		}
	}
	return c.err
}

func (c *collection) after(request string) error {
	c.mu.Lock()
	afterRead := c.afterRead
	c.mu.Unlock()
	if request == mongotest.FindOne && afterRead != nil {
		afterRead()
	}
	return nil
}

// claimByRival claims the checkpoint as another process of the same pipeline does.
func (c *collection) claimByRival() {
	c.direct(func(ctx context.Context, checkpoints *mongo.Collection) error {
		_, err := checkpoints.UpdateOne(ctx, byStream, bson.D{
			{Key: "$inc", Value: bson.D{{Key: "epoch", Value: int64(1)}}},
			{Key: "$set", Value: bson.D{{Key: "holder", Value: "rival"}, {Key: "identity", Value: pipelineA}}},
		}, options.UpdateOne().SetUpsert(true))
		return err
	})
}

// direct runs do on the collection without faults.
func (c *collection) direct(do func(context.Context, *mongo.Collection) error) {
	if err := c.Direct(do); err != nil {
		panic(fmt.Errorf("direct access to the checkpoint: %w", err))
	}
}

// order sets the faults of requests.
func (c *collection) order(err error, hang bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.hang = err, hang
}

// stored returns the document events, and how many updates there were.
func (c *collection) stored() (bson.M, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Stored(c.tb, byStream), c.updates
}

// set changes fields of the stored document.
func (c *collection) set(fields bson.D) { c.Set(c.tb, byStream, fields) }

// remove deletes the stored document.
func (c *collection) remove() { c.Remove(c.tb, byStream) }

// delayed is a collection whose updates, while on, time out and arrive later.
type delayed struct {
	*collection
	on      bool
	pending []func()
}

func (d *delayed) UpdateOne(
	ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions],
) (*mongo.UpdateResult, error) {
	if !d.on {
		return d.collection.UpdateOne(ctx, filter, update, opts...)
	}
	d.pending = append(d.pending, func() {
		d.direct(func(ctx context.Context, checkpoints *mongo.Collection) error {
			_, err := checkpoints.UpdateOne(ctx, filter, update, opts...)
			return err
		})
	})
	return nil, errNetwork
}

func (d *delayed) deliver() {
	for _, update := range d.pending {
		update()
	}
}
