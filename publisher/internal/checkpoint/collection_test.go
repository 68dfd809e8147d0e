package checkpoint_test

import (
	"context"
	"errors"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
)

// collection is a checkpoint.Collection in memory, with the operators that the store uses
// and with injected faults. The stand-in mongoemu cannot replace it: the tests run in
// virtual time, in which sockets do not work, and inject faults into single updates: no
// answer, or a duplicate of an upsert.
type collection struct {
	mu        sync.Mutex
	documents map[string]bson.M
	// err is the error of updates; hang makes them wait for their context.
	err  error
	hang bool
	// duplicates is how many claims fail because another process has inserted the document
	// first.
	duplicates int
	updates    int
	// afterRead runs after each read, before any change of the documents.
	afterRead func()
}

var (
	errNetwork   = errors.New("connection reset")
	errDuplicate = mongo.CommandError{Code: 11000, Name: "DuplicateKey"}
)

func newCollection() *collection { return &collection{documents: map[string]bson.M{}} }

// order sets the faults of updates.
func (c *collection) order(err error, hang bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.hang = err, hang
}

// stored returns a copy of the document events, and how many updates there were.
func (c *collection) stored() (bson.M, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return toMap(c.documents["events"]), c.updates
}

func toMap(v any) bson.M {
	raw, err := bson.Marshal(v)
	if err != nil {
		panic(err)
	}
	m := bson.M{}
	if err := bson.Unmarshal(raw, &m); err != nil {
		panic(err)
	}
	return m
}

func (c *collection) FindOne(_ context.Context, filter any, _ ...options.Lister[options.FindOneOptions]) *mongo.SingleResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	document := c.documents[toMap(filter)["_id"].(string)]
	switch {
	case c.err != nil:
		return mongo.NewSingleResultFromDocument(bson.D{}, c.err, nil)
	case document == nil:
		return mongo.NewSingleResultFromDocument(bson.D{}, mongo.ErrNoDocuments, nil)
	}
	if c.afterRead != nil {
		defer c.afterRead()
	}
	return mongo.NewSingleResultFromDocument(document, nil, nil)
}

func (c *collection) FindOneAndUpdate(
	ctx context.Context, filter, update any, opts ...options.Lister[options.FindOneAndUpdateOptions],
) *mongo.SingleResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := options.FindOneAndUpdateOptions{}
	for _, o := range opts {
		for _, apply := range o.List() {
			if err := apply(&set); err != nil {
				panic(err)
			}
		}
	}
	err := c.err
	if c.duplicates > 0 {
		c.duplicates--
		err = errDuplicate
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	conditions := toMap(filter)
	id := conditions["_id"].(string)
	document := c.documents[id]
	if epoch, isNumber := conditions["epoch"].(int64); document != nil && (!isNumber || document["epoch"] != epoch) {
		if set.Upsert != nil && *set.Upsert {
			return mongo.NewSingleResultFromDocument(bson.D{}, errDuplicate, nil)
		}
		return mongo.NewSingleResultFromDocument(bson.D{}, mongo.ErrNoDocuments, nil)
	}
	if document == nil {
		if set.Upsert == nil || !*set.Upsert {
			return mongo.NewSingleResultFromDocument(bson.D{}, mongo.ErrNoDocuments, nil)
		}
		c.documents[id] = bson.M{"_id": id}
	}
	c.apply(c.documents[id], update)
	if set.ReturnDocument == nil || *set.ReturnDocument != options.After {
		panic("the document before the update is of no use")
	}
	return mongo.NewSingleResultFromDocument(c.documents[id], nil, nil)
}

func (c *collection) UpdateOne(
	ctx context.Context, filter, update any, _ ...options.Lister[options.UpdateOneOptions],
) (*mongo.UpdateResult, error) {
	c.mu.Lock()
	hang := c.hang
	c.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.updates++
	if c.err != nil {
		return nil, c.err
	}
	if err := mongoxtest.CheckNoDeadline(ctx); err != nil {
		return nil, err
	}
	conditions := toMap(filter)
	document, ok := c.documents[conditions["_id"].(string)]
	for field, want := range conditions {
		if bound, isOperator := want.(bson.D); isOperator {
			value, isNumber := document[field].(int64)
			ok = ok && isNumber && bound[0].Key == "$lte" && value <= bound[0].Value.(int64)
			continue
		}
		ok = ok && document[field] == want
	}
	if !ok {
		return &mongo.UpdateResult{}, nil
	}
	c.apply(document, update)
	return &mongo.UpdateResult{MatchedCount: 1, ModifiedCount: 1}, nil
}

func (c *collection) apply(document bson.M, update any) {
	for operator, fields := range toMap(update) {
		for _, e := range fields.(bson.D) {
			switch operator {
			case "$set":
				if parent, child, nested := strings.Cut(e.Key, "."); nested {
					inner := toMap(document[parent])
					inner[child] = e.Value
					document[parent] = inner
					continue
				}
				document[e.Key] = e.Value
			case "$unset":
				delete(document, e.Key)
			case "$inc":
				n, _ := document[e.Key].(int64)
				document[e.Key] = n + e.Value.(int64)
			default:
				panic("no operator " + operator)
			}
		}
	}
}

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
	d.pending = append(d.pending, func() { _, _ = d.collection.UpdateOne(ctx, filter, update, opts...) })
	return nil, errNetwork
}

func (d *delayed) deliver() {
	for _, update := range d.pending {
		update()
	}
}
