package mongotest

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
)

// The requests of a [Collection], as its hooks get them.
const (
	FindOne          = "FindOne"
	FindOneAndUpdate = "FindOneAndUpdate"
	InsertOne        = "InsertOne"
	UpdateOne        = "UpdateOne"
	BulkWrite        = "BulkWrite"
)

// Collection is a collection of the stand-in whose requests a test can delay and fail. It
// also works in the bubbles of testing/synctest: requests run outside of the bubble, and
// virtual time stands still until the server has answered. Requests with a deadline fail,
// because with a deadline the driver retries without a pause
// ([github.com/penstock-cdc/penstock/pkg/mongox.Timeout]).
//
// Set the hooks before the first request. They run in the goroutine of the caller.
type Collection struct {
	// Before is called before a request is sent. It can wait, for example until ctx ends.
	// If it returns an error, the request fails with it and is not sent. It is optional.
	Before func(ctx context.Context, request string) error
	// After is called after the server has answered without an error. If it returns an
	// error, the caller gets it instead of the answer. It is optional.
	After func(request string) error

	server     *Server
	collection *mongo.Collection
}

// Collection returns c, which must be a collection of s, with hooks.
func (s *Server) Collection(c *mongo.Collection) *Collection {
	return &Collection{server: s, collection: c}
}

// Direct runs do on the collection without the hooks and outside of any bubble. do must use
// its own context, and no channel or timer of the caller.
func (c *Collection) Direct(do func(context.Context, *mongo.Collection) error) error {
	var err error
	c.server.outside(func() { err = do(context.Background(), c.collection) })
	return err
}

// Documents returns all documents of the collection. It does not call the hooks.
func (c *Collection) Documents() ([]bson.Raw, error) {
	var documents []bson.Raw
	err := c.Direct(func(ctx context.Context, collection *mongo.Collection) error {
		cursor, err := collection.Find(ctx, bson.D{})
		if err != nil {
			return err
		}
		return cursor.All(ctx, &documents)
	})
	return documents, err
}

// request calls the hooks around send, and runs send outside of the bubble. The context of
// send never ends: its channel would belong to the bubble.
func (c *Collection) request(ctx context.Context, name string, send func(context.Context) error) error {
	if err := mongoxtest.CheckNoDeadline(ctx); err != nil {
		return err
	}
	if c.Before != nil {
		if err := c.Before(ctx, name); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	c.server.outside(func() { err = send(context.WithoutCancel(ctx)) })
	if err == nil && c.After != nil {
		err = c.After(name)
	}
	return err
}

// single is request for requests that return at most one document.
func (c *Collection) single(ctx context.Context, name string, send func(context.Context) *mongo.SingleResult) *mongo.SingleResult {
	var result *mongo.SingleResult
	err := c.request(ctx, name, func(ctx context.Context) error {
		result = send(ctx)
		if err := result.Err(); !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
		return nil
	})
	if err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	return result
}

// FindOne is [mongo.Collection.FindOne].
func (c *Collection) FindOne(ctx context.Context, filter any, opts ...options.Lister[options.FindOneOptions]) *mongo.SingleResult {
	return c.single(ctx, FindOne, func(ctx context.Context) *mongo.SingleResult {
		return c.collection.FindOne(ctx, filter, opts...)
	})
}

// FindOneAndUpdate is [mongo.Collection.FindOneAndUpdate].
func (c *Collection) FindOneAndUpdate(ctx context.Context, filter, update any, opts ...options.Lister[options.FindOneAndUpdateOptions]) *mongo.SingleResult {
	return c.single(ctx, FindOneAndUpdate, func(ctx context.Context) *mongo.SingleResult {
		return c.collection.FindOneAndUpdate(ctx, filter, update, opts...)
	})
}

// InsertOne is [mongo.Collection.InsertOne].
func (c *Collection) InsertOne(ctx context.Context, document any, opts ...options.Lister[options.InsertOneOptions]) (*mongo.InsertOneResult, error) {
	var result *mongo.InsertOneResult
	err := c.request(ctx, InsertOne, func(ctx context.Context) (err error) {
		result, err = c.collection.InsertOne(ctx, document, opts...)
		return err
	})
	return result, err
}

// UpdateOne is [mongo.Collection.UpdateOne].
func (c *Collection) UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	var result *mongo.UpdateResult
	err := c.request(ctx, UpdateOne, func(ctx context.Context) (err error) {
		result, err = c.collection.UpdateOne(ctx, filter, update, opts...)
		return err
	})
	return result, err
}

// BulkWrite is [mongo.Collection.BulkWrite].
func (c *Collection) BulkWrite(ctx context.Context, models []mongo.WriteModel, opts ...options.Lister[options.BulkWriteOptions]) (*mongo.BulkWriteResult, error) {
	var result *mongo.BulkWriteResult
	err := c.request(ctx, BulkWrite, func(ctx context.Context) (err error) {
		result, err = c.collection.BulkWrite(ctx, models, opts...)
		return err
	})
	return result, err
}
