package command

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

func getMore(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	id, ok := r.value.Int64OK()
	if !ok {
		return wrongType(r.Name, r.Name, r.value, "long")
	}
	coll, size := "", 0
	if err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		switch key {
		case "collection":
			if v.Type != bsoncore.TypeString {
				return true, wrongType(r.Name, key, v, "string")
			}
			coll = string(bsonraw.Text(v))
		case "batchSize":
			n, err := nonNegative(r, key, v)
			size = int(n)
			return true, err
		case "term", "lastKnownCommittedOpTime":
			return true, mongoerr.Lacking("the getMore option %q", key)
		default:
			return false, nil
		}
		return true, nil
	}); err != nil {
		return err
	}
	if coll == "" {
		return mongoerr.New(40414, "BSON field 'getMore.collection' is missing but a required field")
	}
	c, err := e.cursors.pin(id)
	if err != nil {
		return err
	}
	r.readLevel = c.readLevel
	keep := false
	defer func() { e.cursors.unpin(c, keep) }()
	if err := r.mayRead(c, coll); err != nil {
		keep = true
		return err
	}
	if c.stream != nil {
		keep, err = e.moreChanges(ctx, r, b, c, size)
		return err
	}
	if r.maxTime > 0 {
		keep = true
		return mongoerr.New(mongoerr.BadValue, "cannot set maxTimeMS on getMore command for a non-awaitData cursor")
	}
	docs, done, err := c.source.Next(ctx, size, maxBatchBytes)
	if err != nil {
		return err
	}
	b.Start("cursor")
	if err := c.batch(b, "nextBatch", docs); err != nil {
		return err
	}
	if !done {
		keep = true
		c.spare(ctx)
		b.Int64("id", c.id)
	} else {
		b.Int64("id", 0)
	}
	b.String("ns", c.ns.String()).End()
	return nil
}

// mayRead returns an error if a getMore does not match the cursor's namespace, session
// and transaction.
func (r *Request) mayRead(c *cursor, coll string) error {
	session := ""
	if r.session != nil {
		session = r.session.ID()
	}
	switch {
	case c.ns.DB != r.DB || c.ns.Coll != coll:
		return mongoerr.New(mongoerr.Unauthorized, "Requested getMore on namespace '%s.%s', but cursor belongs to a different namespace %s", r.DB, coll, c.ns)
	case c.session == "" && session != "":
		return mongoerr.New(50736, "Cannot run getMore on cursor %d, which was not created in a session, in session %x", c.id, session)
	case c.session != "" && session == "":
		return mongoerr.New(50737, "Cannot run getMore on cursor %d, which was created in session %x, without an lsid", c.id, c.session)
	case c.session != session:
		return mongoerr.New(50738, "Cannot run getMore on cursor %d, which was created in another session", c.id)
	case c.number != nil && r.number == nil:
		return mongoerr.New(50740, "Cannot run getMore on cursor %d, which was created in transaction %d, without a txnNumber", c.id, *c.number)
	case c.number != nil && *r.number != *c.number:
		return mongoerr.New(50741, "Cannot run getMore on cursor %d, which was created in transaction %d, in transaction %d", c.id, *c.number, *r.number)
	case c.number == nil && r.tx != nil:
		return mongoerr.New(50739, "Cannot run getMore on cursor %d, which was not created in a transaction, in a transaction", c.id)
	}
	return nil
}

// moreChanges waits for events until maxTimeMS of the command, or one second by default.
func (e *Engine) moreChanges(ctx context.Context, r *Request, b *bsonraw.Builder, c *cursor, size int) (keep bool, err error) {
	await := defaultAwait
	if r.maxTime > 0 {
		await = r.maxTime
	}
	waiting, stop := context.WithTimeout(ctx, await)
	defer stop()
	var events [][]byte
	for {
		if err := c.gone(); err != nil {
			return false, err
		}
		if events, err = c.stream.Next(size, maxBatchBytes); err != nil {
			return false, err
		}
		if len(events) > 0 || c.stream.Ended() || !c.stream.Wait(waiting, c.killed) {
			break
		}
	}
	if err := c.gone(); err != nil && len(events) == 0 {
		return false, err
	}
	if ctx.Err() != nil {
		return false, store.Interrupted(ctx)
	}
	return !c.stream.Ended(), c.changes(b, "nextBatch", events)
}

// gone returns the reason why the cursor was killed; nil if it was not.
func (c *cursor) gone() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// changes writes a batch of a change stream.
func (c *cursor) changes(b *bsonraw.Builder, name string, events [][]byte) error {
	b.Start("cursor")
	if err := c.batch(b, name, events); err != nil {
		return err
	}
	b.Document("postBatchResumeToken", c.stream.Token())
	if c.stream.Ended() {
		b.Int64("id", 0)
	} else {
		b.Int64("id", c.id)
	}
	b.String("ns", c.ns.String()).End()
	return nil
}

func killCursors(_ context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	if _, err := r.collection(); err != nil {
		return err
	}
	var ids []int64
	if err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		if key != "cursors" {
			return false, nil
		}
		if v.Type != bsoncore.TypeArray {
			return true, wrongType(r.Name, key, v, "array")
		}
		for _, id := range bsonraw.Elements(v.Data) {
			n, ok := id.Int64OK()
			if !ok {
				return true, wrongType(r.Name, "cursors", id, "long")
			}
			ids = append(ids, n)
		}
		return true, nil
	}); err != nil {
		return err
	}
	if len(ids) == 0 {
		return mongoerr.New(mongoerr.BadValue, "Must specify at least one cursor id in: killCursors")
	}
	var killed, missing []int64
	for _, id := range ids {
		if e.cursors.kill(id) {
			killed = append(killed, id)
		} else {
			missing = append(missing, id)
		}
	}
	longs(b, "cursorsKilled", killed)
	longs(b, "cursorsNotFound", missing)
	longs(b, "cursorsAlive", nil)
	longs(b, "cursorsUnknown", nil)
	return nil
}

func longs(b *bsonraw.Builder, key string, values []int64) {
	b.StartArray(key)
	for i, n := range values {
		b.Int64(bsonraw.Index(i), n)
	}
	b.End()
}
