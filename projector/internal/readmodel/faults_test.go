package readmodel

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// newDatabase makes an empty database of the stand-in with the collections of the tests.
func newDatabase(t *testing.T) mongoDatabase {
	t.Helper()
	db := server.Database(t)
	if err := errors.Join(Prepare(t.Context(), db, []string{"things", "sums"}), PrepareViews(t.Context(), db)); err != nil {
		t.Fatal(err)
	}
	return onMongo(db)
}

var errUnanswered = mongo.CommandError{Code: 89, Name: "NetworkTimeout", Message: "no reply", Labels: []string{"NetworkError"}}

// faulty is a database whose requests a test can delay and fail, and counts. Set the hooks
// before the first request.
type faulty struct {
	database
	// before runs before a request is sent, and after when it has been answered. An error of
	// them is that of the request. Both are optional.
	before, after func(command, collection string) error
	// begun and committed count the transactions.
	begun, committed atomic.Int64
}

// request runs a request with the hooks.
func (f *faulty) request(command, collection string, send func() error) error {
	if f.before != nil {
		if err := f.before(command, collection); err != nil {
			return err
		}
	}
	err := send()
	if err == nil && f.after != nil {
		err = f.after(command, collection)
	}
	return err
}

func (f *faulty) find(ctx context.Context, collection string, filter, projection bson.Raw, limit int) (found []bson.Raw, err error) {
	err = f.request("find", collection, func() error {
		found, err = f.database.find(ctx, collection, filter, projection, limit)
		return err
	})
	return found, err
}

func (f *faulty) page(ctx context.Context, collection string, filter, projection bson.Raw, limit, maxBytes int) (found []bson.Raw, complete bool, err error) {
	err = f.request("find", collection, func() error {
		found, complete, err = f.database.page(ctx, collection, filter, projection, limit, maxBytes)
		return err
	})
	return found, complete, err
}

func (f *faulty) insert(ctx context.Context, collection string, documents []bson.Raw) error {
	return f.request("insert", collection, func() error { return f.database.insert(ctx, collection, documents) })
}

func (f *faulty) update(ctx context.Context, collection string, updates []update) (n int, err error) {
	err = f.request("update", collection, func() error {
		n, err = f.database.update(ctx, collection, updates)
		return err
	})
	return n, err
}

func (f *faulty) transaction(ctx context.Context, do func(context.Context) error) error {
	f.begun.Add(1)
	return f.request("transaction", "", func() error {
		return f.database.transaction(ctx, func(ctx context.Context) error {
			if err := do(ctx); err != nil {
				return err
			}
			f.committed.Add(1)
			return f.request("commit", "", func() error { return nil })
		})
	})
}

// put stores a document.
func put(t *testing.T, db database, collection string, document any) {
	t.Helper()
	if err := db.insert(t.Context(), collection, []bson.Raw{testkit.Raw(document)}); err != nil {
		t.Fatal(err)
	}
}
