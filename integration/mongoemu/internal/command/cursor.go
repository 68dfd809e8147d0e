package command

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/changestream"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/projection"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

const (
	// defaultBatch is the default number of documents in a first batch.
	defaultBatch = 101
	// maxBatchBytes bounds a batch in bytes. It is the server's limit for a reply.
	maxBatchBytes = 16 << 20
	// defaultAwait is how long a getMore on a change stream waits by default.
	defaultAwait = time.Second
	// cursorTimeout is how long an unused cursor is kept. It is the server's default.
	cursorTimeout = 10 * time.Minute
)

// source returns documents in batches until done.
type source interface {
	Next(ctx context.Context, maxDocs, maxBytes int) (docs [][]byte, done bool, err error)
}

// cursor is an open cursor on a source or on a change stream.
type cursor struct {
	id         int64
	ns         store.Namespace
	source     source
	stream     *changestream.Stream
	projection projection.Transform
	vars       expr.Vars
	session    string
	number     *int64
	readLevel  string
	tx         *store.Tx

	// killed is closed when the cursor is killed. why is then the reason.
	killed chan struct{}

	mu    sync.Mutex // guards the fields below
	why   error
	inUse bool
	used  time.Time
	left  time.Duration // what further getMores may take together; 0 means no bound
}

// cursors contains the open cursors by id.
type cursors struct {
	now  func() time.Time
	mu   sync.Mutex
	byID map[int64]*cursor
}

func newCursors(now func() time.Time) *cursors {
	return &cursors{now: now, byID: map[int64]*cursor{}}
}

func (cs *cursors) add(c *cursor) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.killed = make(chan struct{})
	c.used = cs.now()
	for c.id == 0 || cs.byID[c.id] != nil {
		c.id = rand.Int64()
	}
	cs.byID[c.id] = c
}

func notFound(id int64) error {
	return mongoerr.New(mongoerr.CursorNotFound, "cursor id %d not found", id)
}

// pin reserves a cursor for one getMore.
func (cs *cursors) pin(id int64) (*cursor, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.byID[id]
	if c == nil {
		return nil, notFound(id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inUse {
		return nil, mongoerr.New(143, "cursor id %d is already in use", id)
	}
	if c.why != nil {
		delete(cs.byID, id)
		return nil, c.why
	}
	c.inUse = true
	return c, nil
}

// unpin releases a cursor, or removes it if keep is false or it was killed.
func (cs *cursors) unpin(c *cursor, keep bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse = false
	c.used = cs.now()
	if !keep || c.why != nil {
		delete(cs.byID, c.id)
	}
}

// kill removes a cursor. A getMore that is waiting on it returns. kill reports whether
// the cursor existed.
func (cs *cursors) kill(id int64) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.byID[id]
	if c == nil {
		return false
	}
	delete(cs.byID, id)
	c.end(mongoerr.New(mongoerr.CursorKilled, "cursor was killed"))
	return true
}

func (c *cursor) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.why = why
		close(c.killed)
	}
}

// interrupt makes the running or, if none is running, the next getMore of every change
// stream fail with why. It returns the number of change streams.
func (cs *cursors) interrupt(why error) int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	n := 0
	for _, c := range cs.byID {
		if c.stream != nil {
			c.end(why)
			n++
		}
	}
	return n
}

// killAll removes all cursors and returns their number.
func (cs *cursors) killAll() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	n := len(cs.byID)
	for id, c := range cs.byID {
		delete(cs.byID, id)
		c.end(notFound(id))
	}
	return n
}

// ofSession removes the cursors of a session.
func (cs *cursors) ofSession(id string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, c := range cs.byID {
		if c.session == id {
			delete(cs.byID, key)
			c.end(mongoerr.New(mongoerr.CursorKilled, "cursor was killed with its session"))
		}
	}
}

// expire removes cursors that were not used for cursorTimeout.
func (cs *cursors) expire() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	now := cs.now()
	for id, c := range cs.byID {
		c.mu.Lock()
		idle := !c.inUse && now.Sub(c.used) > cursorTimeout
		c.mu.Unlock()
		if idle {
			delete(cs.byID, id)
		}
	}
}

// ofStream reports whether a command opens or reads a change stream.
func (e *Engine) ofStream(r *Request) bool {
	switch r.Name {
	case "getMore":
		id, _ := r.value.Int64OK()
		e.cursors.mu.Lock()
		defer e.cursors.mu.Unlock()
		c := e.cursors.byID[id]
		return c != nil && c.stream != nil
	case "aggregate":
		pipeline, _ := bsonraw.Lookup(r.Body, "pipeline")
		if pipeline.Type != bsoncore.TypeArray {
			return false
		}
		first, ok := bsonraw.Lookup(pipeline.Data, "0")
		if !ok || first.Type != bsoncore.TypeEmbeddedDocument {
			return false
		}
		_, ok = bsonraw.Lookup(first.Data, "$changeStream")
		return ok
	}
	return false
}

// InterruptStreams makes the running or next getMore of every open change stream fail
// with a code. It returns the number of change streams.
func (e *Engine) InterruptStreams(code int32) int {
	return e.cursors.interrupt(mongoerr.New(mongoerr.Code(code), "change stream interrupted by order of a test"))
}

// KillCursors removes all cursors and returns their number.
func (e *Engine) KillCursors() int { return e.cursors.killAll() }

// OpenCursors returns the number of open cursors, and how many of them are change
// streams.
func (e *Engine) OpenCursors() (all, streams int) {
	e.cursors.mu.Lock()
	defer e.cursors.mu.Unlock()
	for _, c := range e.cursors.byID {
		if c.stream != nil {
			streams++
		}
	}
	return len(e.cursors.byID), streams
}

// ExpireCursors removes cursors that were not used for ten minutes.
func (e *Engine) ExpireCursors() { e.cursors.expire() }

// list is a source of documents in memory.
type list struct{ docs [][]byte }

func newList(docs [][]byte) *list { return &list{docs} }

func (l *list) Next(_ context.Context, maxDocs, maxBytes int) ([][]byte, bool, error) {
	n, size := 0, 0
	for n < len(l.docs) && (maxDocs == 0 || n < maxDocs) {
		if size += len(l.docs[n]); n > 0 && size > maxBytes {
			break
		}
		n++
	}
	docs := l.docs[:n]
	l.docs = l.docs[n:]
	return docs, len(l.docs) == 0, nil
}

// cursorBatch parses the cursor option {batchSize: n}.
func cursorBatch(r *Request, v bsonraw.Value) (int, error) {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return 0, wrongType(r.Name, "cursor", v, "object")
	}
	batch := defaultBatch
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		if string(it.Key()) != "batchSize" {
			return 0, mongoerr.New(40415, "BSON field 'cursor.%s' is an unknown field.", it.Key())
		}
		n, err := nonNegative(r, "batchSize", it.Value())
		if err != nil {
			return 0, err
		}
		batch = int(n)
	}
	return batch, nil
}

func nonNegative(r *Request, field string, v bsonraw.Value) (int64, error) {
	n, ok := bsonraw.Int64(v)
	switch {
	case !bsonraw.IsNumber(v):
		return 0, wrongType(r.Name, field, v, "long")
	case !ok || n < 0:
		return 0, mongoerr.New(51024, "BSON field '%s' value must be >= 0, actual value '%s'", field, bsonraw.Format(v))
	}
	return n, nil
}

// batch writes documents as a cursor's firstBatch or nextBatch.
func (c *cursor) batch(b *bsonraw.Builder, name string, docs [][]byte) error {
	b.StartArray(name)
	if c.projection == nil {
		size := 512 // what follows them
		for _, d := range docs {
			size += len(d) + 8 // with its type and its index
		}
		b.Grow(size)
	}
	for i, d := range docs {
		if c.projection != nil {
			var err error
			if d, err = c.projection.Apply(d, c.vars); err != nil {
				return err
			}
		}
		b.Document(bsonraw.Index(i), d)
	}
	b.End()
	return nil
}

// firstBatch writes the first batch of a new cursor. It keeps the cursor if there may be
// more documents, unless single is set.
func (e *Engine) firstBatch(ctx context.Context, r *Request, b *bsonraw.Builder, c *cursor, size int, single bool) error {
	var docs [][]byte
	done := false
	var err error
	if size > 0 {
		if docs, done, err = c.source.Next(ctx, size, maxBatchBytes); err != nil {
			return err
		}
	}
	b.Start("cursor")
	if err := c.batch(b, "firstBatch", docs); err != nil {
		return err
	}
	if !done && !single {
		c.own(r)
		c.spare(ctx)
		e.cursors.add(c)
	}
	b.Int64("id", c.id).String("ns", c.ns.String()).End()
	return nil
}

// spare keeps what is left of the command's maxTimeMS for the next getMore.
func (c *cursor) spare(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = max(time.Until(deadline), 1)
}

// left returns how long a getMore may take, as the command that opened its cursor said; 0
// for no bound.
func (cs *cursors) left(r *Request) time.Duration {
	id, _ := r.value.Int64OK()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.byID[id]
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// own binds a cursor to the session, the transaction and the read concern of the command that
// opened it.
func (c *cursor) own(r *Request) {
	c.readLevel = r.readLevel
	if r.session != nil {
		c.session = r.session.ID()
	}
	if r.tx != nil {
		c.number, c.tx = r.number, r.tx
	}
}
