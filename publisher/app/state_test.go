package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
)

// checkpointDocument is the collection checkpoints in memory, with one document. It
// supports the operations of package checkpoint. The stand-in mongoemu cannot replace it:
// terms run in virtual time, in which sockets do not work, and writes must fail as if the
// process was dead.
type checkpointDocument struct {
	mu    sync.Mutex
	doc   bson.M
	saves int
	fault func() error
	// delay is how long an update takes.
	delay time.Duration
	// frozen makes writes fail, as if the process was dead.
	frozen bool
}

func (c *checkpointDocument) freeze(frozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = frozen
}

// slow makes updates take d from now on.
func (c *checkpointDocument) slow(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = d
}

func (c *checkpointDocument) failed(ctx context.Context) error {
	switch {
	case c.frozen:
		return errors.New("the process is dead")
	case c.fault != nil:
		return c.fault()
	}
	return mongoxtest.CheckNoDeadline(ctx)
}

func (c *checkpointDocument) FindOne(ctx context.Context, _ any, _ ...options.Lister[options.FindOneOptions]) *mongo.SingleResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.failed(ctx)
	if err == nil && c.doc == nil {
		err = mongo.ErrNoDocuments
	}
	if err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	return mongo.NewSingleResultFromDocument(c.doc, nil, nil)
}

func (c *checkpointDocument) FindOneAndUpdate(ctx context.Context, filter, update any, _ ...options.Lister[options.FindOneAndUpdateOptions]) *mongo.SingleResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.failed(ctx); err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	conditions := asMap(filter)
	if c.doc == nil {
		c.doc = bson.M{"_id": conditions["_id"]}
	} else if c.doc["epoch"] != conditions["epoch"] {
		return mongo.NewSingleResultFromDocument(bson.D{}, mongo.ErrNoDocuments, nil)
	}
	if err := c.apply(asMap(update)); err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	return mongo.NewSingleResultFromDocument(c.doc, nil, nil)
}

func (c *checkpointDocument) UpdateOne(ctx context.Context, filter, update any, _ ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	c.mu.Lock()
	delay := c.delay
	c.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.failed(ctx); err != nil {
		return nil, err
	}
	for key, want := range asMap(filter) {
		have := c.doc[key]
		if bound, ok := want.(bson.M); ok {
			if have.(int64) > bound["$lte"].(int64) {
				return &mongo.UpdateResult{}, nil
			}
			continue
		}
		if have != want {
			return &mongo.UpdateResult{}, nil
		}
	}
	c.saves++
	return &mongo.UpdateResult{MatchedCount: 1}, c.apply(asMap(update))
}

// apply executes $set, $unset and $inc.
func (c *checkpointDocument) apply(update bson.M) error {
	for operator, fields := range update {
		if fields == nil {
			continue
		}
		for key, value := range fields.(bson.M) {
			switch operator {
			case "$set":
				if parent, child, nested := strings.Cut(key, "."); nested {
					c.doc[parent].(bson.M)[child] = value
					continue
				}
				c.doc[key] = value
			case "$unset":
				delete(c.doc, key)
			case "$inc":
				was, _ := c.doc[key].(int64)
				c.doc[key] = was + value.(int64)
			default:
				return fmt.Errorf("operator %s", operator)
			}
		}
	}
	return nil
}

// field returns a field of the document; nil if it has none of that name.
func (c *checkpointDocument) field(name string) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doc[name]
}

func asMap(v any) bson.M {
	m := bson.M{}
	decoder := bson.NewDecoder(bson.NewDocumentReader(bytes.NewReader(mustRaw(v))))
	decoder.DefaultDocumentM()
	if err := decoder.Decode(&m); err != nil {
		panic(err)
	}
	return m
}

// quarantined is the collection quarantine in memory. It counts how often each document was
// stored.
type quarantined struct {
	mu   sync.Mutex
	seen map[int32]int
}

func (q *quarantined) BulkWrite(_ context.Context, models []mongo.WriteModel, _ ...options.Lister[options.BulkWriteOptions]) (*mongo.BulkWriteResult, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, model := range models {
		update, ok := model.(*mongo.UpdateOneModel)
		if !ok {
			return nil, errors.New("not an update")
		}
		if q.seen == nil {
			q.seen = map[int32]int{}
		}
		q.seen[asMap(update.Filter)["_id"].(bson.M)["document"].(int32)]++
	}
	return &mongo.BulkWriteResult{}, nil
}

func (q *quarantined) has(id int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seen[int32(id)] > 0
}
