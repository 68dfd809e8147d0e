package readmodel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
)

// fakeDatabase is a replica set in memory with the behaviour that this package needs:
// atomic writes of single documents, unordered writes with errors by index, and
// transactions with snapshot isolation that conflict on writes. The contract tests run on
// it and on the stand-in mongoemu.
//
// The property tests need virtual time, because crashes, lost requests and backoffs take
// minutes, and the stand-in does not work there: a plain write to a document that an open
// transaction has written waits for the end of the transaction, as on a MongoDB server.
// Virtual time stops during a request, so the delays of that transaction, and with them the
// wait, would never end. Speed is not the reason: 100 runs of
// TestAnyDeliveryEndsWithTheFold send 15,600 requests, for which the stand-in needs 2 s
// more.
type fakeDatabase struct {
	mu          sync.Mutex
	collections map[string]map[string]*record
	random      *rand.Rand
	// latency bounds the random delay before and after each command.
	latency time.Duration
	// lost is the probability that a command does not arrive, unanswered the probability
	// that its reply does not.
	lost, unanswered float64
	// refuse returns the server's error for a document that would be stored; nil accepts
	// it.
	refuse func(collection string, document bson.Raw) error
	// onArrival runs before each command.
	onArrival func(command, collection string)
	// calls counts commands by name.
	calls map[string]int
}

// record is a document with the state that transactions need.
type record struct {
	id bson.RawValue
	// document is nil after a delete.
	document bson.Raw
	// version rises with each change.
	version int
	// owner is the open transaction that has changed the document; nil if there is none.
	owner *fakeTransaction
}

var _ database = (*fakeDatabase)(nil)

func newFakeDatabase(seed uint64) *fakeDatabase {
	return &fakeDatabase{
		collections: make(map[string]map[string]*record),
		random:      rand.New(rand.NewPCG(seed, 1)),
		calls:       make(map[string]int),
	}
}

func (f *fakeDatabase) find(ctx context.Context, collection string, filter, projection bson.Raw, _ int) ([]bson.Raw, error) {
	return send(ctx, func(ctx context.Context) ([]bson.Raw, error) { return f.findNow(ctx, collection, filter, projection) })
}

func (f *fakeDatabase) page(ctx context.Context, collection string, filter, projection bson.Raw, _, maxBytes int) ([]bson.Raw, bool, error) {
	found, err := f.find(ctx, collection, filter, projection, 0)
	bytes := 0
	for i, document := range found {
		if bytes >= maxBytes {
			return found[:i], false, err
		}
		bytes += len(document)
	}
	return found, bytes < maxBytes, err
}

// exists is true, because nothing renames or drops collections of this database.
func (f *fakeDatabase) exists(context.Context, string) (bool, error) { return true, nil }

func (f *fakeDatabase) each(ctx context.Context, collection string, filter bson.Raw, do func(bson.Raw) error) error {
	found, err := f.find(ctx, collection, filter, nil, 0)
	for _, document := range found {
		if err == nil {
			err = do(document)
		}
	}
	return err
}

func (f *fakeDatabase) findNow(ctx context.Context, collection string, filter, projection bson.Raw) ([]bson.Raw, error) {
	if err := f.arrive(ctx, "find", collection); err != nil {
		return nil, err
	}
	f.mu.Lock()
	var found []bson.Raw
	t, _ := ctx.Value(transactionKey{}).(*fakeTransaction)
	for _, document := range f.visible(t, collection) {
		if matches(filter, document) {
			found = append(found, projected(document, projection))
		}
	}
	f.mu.Unlock()
	return found, f.reply(ctx)
}

func (f *fakeDatabase) insert(ctx context.Context, collection string, documents []bson.Raw) error {
	_, err := f.write(ctx, "insert", collection, len(documents), func(t *fakeTransaction, i int) (int, error) {
		return 1, f.insertOne(t, collection, bytes.Clone(documents[i]))
	})
	return err
}

func (f *fakeDatabase) insertOne(t *fakeTransaction, collection string, document bson.Raw) error {
	id := document.Lookup(fieldID)
	return f.change(t, collection, id, func(old bson.Raw) (bson.Raw, error) {
		if old != nil {
			return nil, duplicateID(collection, id)
		}
		return document, nil
	})
}

func duplicateID(collection string, id bson.RawValue) error {
	raw := bsontest.Raw(bson.D{{Key: "code", Value: 11000}, {Key: "keyPattern", Value: bson.D{{Key: "_id", Value: 1}}}})
	return mongo.WriteError{Code: 11000, Message: fmt.Sprintf("E11000 duplicate key error collection: test.%s index: _id_ dup key: %s", collection, id), Raw: raw}
}

func (f *fakeDatabase) update(ctx context.Context, collection string, updates []update) (int, error) {
	return f.write(ctx, "update", collection, len(updates), func(t *fakeTransaction, i int) (int, error) {
		u := updates[i]
		id := u.filter.Lookup(fieldID)
		n := 0
		err := f.change(t, collection, id, func(old bson.Raw) (bson.Raw, error) {
			if old != nil && matches(u.filter, old) {
				n = 1
				if u.whole {
					return bytes.Clone(u.change), nil
				}
				return applyUpdate(old, u.change), nil
			}
			if !u.upsert {
				return old, nil
			}
			if old != nil {
				return nil, duplicateID(collection, id)
			}
			n = 1
			return applyUpdate(u.filter, u.change), nil
		})
		return n, err
	})
}

func (f *fakeDatabase) remove(ctx context.Context, collection string, filters []bson.Raw) (int, error) {
	return f.write(ctx, "delete", collection, len(filters), func(t *fakeTransaction, i int) (int, error) {
		n := 0
		err := f.change(t, collection, filters[i].Lookup(fieldID), func(old bson.Raw) (bson.Raw, error) {
			if old != nil && matches(filters[i], old) {
				n = 1
				return nil, nil
			}
			return old, nil
		})
		return n, err
	})
}

// write carries out n operations, in random order, and returns how many documents matched.
func (f *fakeDatabase) write(ctx context.Context, command, collection string, n int, one func(t *fakeTransaction, i int) (int, error)) (int, error) {
	return send(ctx, func(ctx context.Context) (int, error) {
		if err := f.arrive(ctx, command, collection); err != nil {
			return 0, err
		}
		total, err := f.writeNow(ctx, collection, n, one)
		if err := f.reply(ctx); err != nil {
			return 0, err
		}
		return total, err
	})
}

func (f *fakeDatabase) writeNow(ctx context.Context, collection string, n int, one func(t *fakeTransaction, i int) (int, error)) (int, error) {
	t, _ := ctx.Value(transactionKey{}).(*fakeTransaction)
	f.mu.Lock()
	order := f.random.Perm(n)
	f.mu.Unlock()
	var exception mongo.BulkWriteException
	total := 0
	for _, i := range order {
		var found int
		var err error
		for {
			f.mu.Lock()
			found, err = one(t, i)
			f.mu.Unlock()
			if !errors.Is(err, errBusy) {
				break
			}
			<-time.After(100 * time.Microsecond)
		}
		var e mongo.WriteError
		switch {
		case errors.As(err, &e):
			e.Index = i
			exception.WriteErrors = append(exception.WriteErrors, mongo.BulkWriteError{WriteError: e})
		case err != nil:
			return 0, err
		default:
			total += found
		}
		if t != nil && err != nil {
			f.end(t, false)
			break
		}
	}
	if len(exception.WriteErrors) > 0 {
		slices.SortFunc(exception.WriteErrors, func(a, b mongo.BulkWriteError) int { return a.Index - b.Index })
		return total, fmt.Errorf("write to %s: %w", collection, exception)
	}
	return total, nil
}

// documents returns the documents of a collection by _id.
func (f *fakeDatabase) documents(collection string) map[string]bson.Raw {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := make(map[string]bson.Raw)
	for _, r := range f.collections[collection] {
		if r.document != nil {
			if id, ok := r.id.StringValueOK(); ok {
				found[id] = r.document
			} else {
				id := r.id.Document()
				name := id.Lookup(fieldProjection).StringValue() + "/" + id.Lookup(fieldAggregateID).StringValue()
				if later, ok := id.Lookup(fieldGeneration).AsInt64OK(); ok {
					name += fmt.Sprint("/", later)
				}
				found[name] = r.document
			}
		}
	}
	return found
}
