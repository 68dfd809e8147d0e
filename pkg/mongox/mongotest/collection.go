package mongotest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The requests of a [Collection], as its hooks get them.
const (
	FindOne          = "FindOne"
	FindOneAndUpdate = "FindOneAndUpdate"
	InsertOne        = "InsertOne"
	UpdateOne        = "UpdateOne"
	BulkWrite        = "BulkWrite"
	Find             = "Find"
	Aggregate        = "Aggregate"
	DeleteOne        = "DeleteOne"
	DeleteMany       = "DeleteMany"
)

// Collection is a collection of the stand-in whose requests a test can delay and fail. It
// also works in the bubbles of testing/synctest: requests run outside of the bubble, and
// virtual time stands still until the server has answered. Requests with a deadline fail,
// because with a deadline the driver retries without a pause
// ([github.com/penstock-cdc/penstock/pkg/mongox.Timeout]).
//
// $$NOW in filters, updates and pipelines is the time of the caller plus Ahead, so that the server's
// clock follows virtual time too. $currentDate uses the server's own clock.
//
// Set the hooks before the first request. They run in the goroutine of the caller.
type Collection struct {
	// Before is called before a request is sent. It can wait, for example until ctx ends.
	// If it returns an error, the request fails with it and is not sent. It is optional.
	Before func(ctx context.Context, request string) error
	// After is called after the server has answered without an error. If it returns an
	// error, the caller gets it instead of the answer. It is optional.
	After func(request string) error
	// Ahead is how far the server's clock is ahead of the caller's.
	Ahead time.Duration

	server     *Server
	collection *mongo.Collection
}

// Collection returns c, which must be a collection of s, with hooks.
func (s *Server) Collection(c *mongo.Collection) *Collection {
	return &Collection{server: s, collection: c}
}

// Name returns the name of the collection.
func (c *Collection) Name() string { return c.collection.Name() }

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

// Stored returns the document that matches; nil if there is none. It does not call the hooks,
// and neither do Set and Remove.
func (c *Collection) Stored(tb testing.TB, filter bson.D) (stored bson.M) {
	tb.Helper()
	c.must(tb, func(ctx context.Context, collection *mongo.Collection) error {
		if err := collection.FindOne(ctx, filter).Decode(&stored); !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
		return nil
	})
	return stored
}

// Set sets fields of the document that matches, and creates it if there is none.
func (c *Collection) Set(tb testing.TB, filter bson.D, fields any) {
	tb.Helper()
	c.must(tb, func(ctx context.Context, collection *mongo.Collection) error {
		_, err := collection.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: fields}}, options.UpdateOne().SetUpsert(true))
		return err
	})
}

// Remove deletes the document that matches.
func (c *Collection) Remove(tb testing.TB, filter bson.D) {
	tb.Helper()
	c.must(tb, func(ctx context.Context, collection *mongo.Collection) error {
		_, err := collection.DeleteOne(ctx, filter)
		return err
	})
}

func (c *Collection) must(tb testing.TB, do func(context.Context, *mongo.Collection) error) {
	tb.Helper()
	if err := c.Direct(do); err != nil {
		tb.Error(err)
	}
}

// answer calls the hooks around send, and runs send outside of the bubble. The context of
// send never ends: its channel would belong to the bubble.
func answer[T any](ctx context.Context, c *Collection, name string, send func(context.Context, clock) (T, error)) (result T, err error) {
	if err := CheckNoDeadline(ctx); err != nil {
		return result, err
	}
	if c.Before != nil {
		if err := c.Before(ctx, name); err != nil {
			return result, err
		}
	}
	if err := ctx.Err(); err != nil {
		return result, err
	}
	now := clock(bson.NewDateTimeFromTime(time.Now().Add(c.Ahead)))
	c.server.outside(func() { result, err = send(context.WithoutCancel(ctx), now) })
	if err == nil && c.After != nil {
		err = c.After(name)
	}
	return result, err
}

// single is answer for requests that return at most one document.
func (c *Collection) single(ctx context.Context, name string, send func(context.Context, clock) *mongo.SingleResult) *mongo.SingleResult {
	result, err := answer(ctx, c, name, func(ctx context.Context, now clock) (*mongo.SingleResult, error) {
		result := send(ctx, now)
		if err := result.Err(); !errors.Is(err, mongo.ErrNoDocuments) {
			return result, err
		}
		return result, nil
	})
	if err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	return result
}

// FindOne is [mongo.Collection.FindOne].
func (c *Collection) FindOne(ctx context.Context, filter any, opts ...options.Lister[options.FindOneOptions]) *mongo.SingleResult {
	return c.single(ctx, FindOne, func(ctx context.Context, now clock) *mongo.SingleResult {
		return c.collection.FindOne(ctx, now.set(filter), opts...)
	})
}

// FindOneAndUpdate is [mongo.Collection.FindOneAndUpdate].
func (c *Collection) FindOneAndUpdate(ctx context.Context, filter, update any, opts ...options.Lister[options.FindOneAndUpdateOptions]) *mongo.SingleResult {
	return c.single(ctx, FindOneAndUpdate, func(ctx context.Context, now clock) *mongo.SingleResult {
		return c.collection.FindOneAndUpdate(ctx, now.set(filter), now.set(update), opts...)
	})
}

// InsertOne is [mongo.Collection.InsertOne].
func (c *Collection) InsertOne(ctx context.Context, document any, opts ...options.Lister[options.InsertOneOptions]) (*mongo.InsertOneResult, error) {
	return answer(ctx, c, InsertOne, func(ctx context.Context, _ clock) (*mongo.InsertOneResult, error) {
		return c.collection.InsertOne(ctx, document, opts...)
	})
}

// UpdateOne is [mongo.Collection.UpdateOne].
func (c *Collection) UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	return answer(ctx, c, UpdateOne, func(ctx context.Context, now clock) (*mongo.UpdateResult, error) {
		return c.collection.UpdateOne(ctx, now.set(filter), now.set(update), opts...)
	})
}

// BulkWrite is [mongo.Collection.BulkWrite].
func (c *Collection) BulkWrite(ctx context.Context, models []mongo.WriteModel, opts ...options.Lister[options.BulkWriteOptions]) (*mongo.BulkWriteResult, error) {
	return answer(ctx, c, BulkWrite, func(ctx context.Context, now clock) (*mongo.BulkWriteResult, error) {
		return c.collection.BulkWrite(ctx, now.setAll(models), opts...)
	})
}

// Find is [mongo.Collection.Find]. It reads all documents before it returns.
func (c *Collection) Find(ctx context.Context, filter any, opts ...options.Lister[options.FindOptions]) (*mongo.Cursor, error) {
	return c.cursor(ctx, Find, func(ctx context.Context, now clock) (*mongo.Cursor, error) {
		return c.collection.Find(ctx, now.set(filter), opts...)
	})
}

// Aggregate is [mongo.Collection.Aggregate]. It reads all documents before it returns.
func (c *Collection) Aggregate(ctx context.Context, pipeline any, opts ...options.Lister[options.AggregateOptions]) (*mongo.Cursor, error) {
	return c.cursor(ctx, Aggregate, func(ctx context.Context, now clock) (*mongo.Cursor, error) {
		return c.collection.Aggregate(ctx, now.set(pipeline), opts...)
	})
}

// CountDocuments is [mongo.Collection.CountDocuments].
func (c *Collection) CountDocuments(ctx context.Context, filter any, opts ...options.Lister[options.CountOptions]) (int64, error) {
	return answer(ctx, c, Aggregate, func(ctx context.Context, now clock) (int64, error) {
		return c.collection.CountDocuments(ctx, now.set(filter), opts...)
	})
}

// cursor is answer for requests that return several documents.
func (c *Collection) cursor(ctx context.Context, name string, send func(context.Context, clock) (*mongo.Cursor, error)) (*mongo.Cursor, error) {
	documents, err := answer(ctx, c, name, func(ctx context.Context, now clock) (documents []any, err error) {
		cursor, err := send(ctx, now)
		if err != nil {
			return nil, err
		}
		for cursor.Next(ctx) {
			documents = append(documents, slices.Clone(cursor.Current))
		}
		return documents, cursor.Err()
	})
	if err != nil {
		return nil, err
	}
	return mongo.NewCursorFromDocuments(documents, nil, nil)
}

// DeleteOne is [mongo.Collection.DeleteOne].
func (c *Collection) DeleteOne(ctx context.Context, filter any, opts ...options.Lister[options.DeleteOneOptions]) (*mongo.DeleteResult, error) {
	return answer(ctx, c, DeleteOne, func(ctx context.Context, _ clock) (*mongo.DeleteResult, error) {
		return c.collection.DeleteOne(ctx, filter, opts...)
	})
}

// DeleteMany is [mongo.Collection.DeleteMany].
func (c *Collection) DeleteMany(ctx context.Context, filter any, opts ...options.Lister[options.DeleteManyOptions]) (*mongo.DeleteResult, error) {
	return answer(ctx, c, DeleteMany, func(ctx context.Context, now clock) (*mongo.DeleteResult, error) {
		return c.collection.DeleteMany(ctx, now.set(filter), opts...)
	})
}

// clock is the time of a request.
type clock bson.DateTime

// set replaces $$NOW in a part of a command. The driver reports a part that is no document.
func (c clock) set(part any) any {
	kind, raw, err := bson.MarshalValue(part)
	if err != nil {
		return part
	}
	var decoded any
	if err := bson.UnmarshalValue(kind, raw, &decoded); err != nil {
		return part
	}
	return c.replace(decoded)
}

// setAll is set for the updates of a bulk write.
func (c clock) setAll(models []mongo.WriteModel) []mongo.WriteModel {
	models = slices.Clone(models)
	for i, m := range models {
		if update, ok := m.(*mongo.UpdateOneModel); ok {
			own := *update
			own.Filter, own.Update = c.set(update.Filter), c.set(update.Update)
			models[i] = &own
		}
	}
	return models
}

func (c clock) replace(value any) any {
	switch value := value.(type) {
	case string:
		if value == "$$NOW" {
			return bson.DateTime(c)
		}
	case bson.D:
		for i := range value {
			value[i].Value = c.replace(value[i].Value)
		}
	case bson.A:
		for i := range value {
			value[i] = c.replace(value[i])
		}
	}
	return value
}
