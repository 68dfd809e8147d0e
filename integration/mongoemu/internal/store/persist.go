package store

import (
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/journal"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
)

// A frame of the journal is one document with one field. The name of the field says what
// the frame contains:
//
//	collection  a created collection: its namespace, UUID and options
//	index       a created index
//	unindex     a dropped index
//	altered     the new options of a collection or of one of its indexes
//	document    a document of a collection, in a rewritten journal
//	changes     entries that were appended to the log together, with the data that is
//	            needed to repeat them
//	history     a log entry whose change is already in the document frames
const (
	frameCollection = "collection"
	frameIndex      = "index"
	frameUnindex    = "unindex"
	frameAltered    = "altered"
	frameDocument   = "document"
	frameChanges    = "changes"
	frameHistory    = "history"
)

// Open opens the store in a directory, or creates it. It keeps all changes there:
// collections, indexes, documents and the log, but not the state of sessions.
// [Store.Close] closes it.
func Open(log *oplog.Log, now func() time.Time, dir string) (*Store, error) {
	s := empty(log, now)
	j, err := journal.Open(dir, s.replay)
	if err != nil {
		return nil, err
	}
	s.journal = j
	if s.log.Stats().Entries == 0 {
		if err := s.initiate(); err != nil {
			return nil, errors.Join(fmt.Errorf("open the store: %w", err), j.Close())
		}
		return s, nil
	}
	s.clock.Observe(s.log.Newest())
	if err := j.Rewrite(s.snapshotFrames); err != nil {
		return nil, errors.Join(fmt.Errorf("open the store: %w", err), j.Close())
	}
	return s, nil
}

// Close closes the journal and unlocks the directory. It does nothing for a store in
// memory.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal == nil {
		return nil
	}
	return s.journal.Close()
}

// Failed returns a channel that is closed when a write to the journal has failed, for
// example because the disk is full. Memory is then ahead of the disk, so the process must
// end.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// intact returns an error if the journal has failed. After that, no client may read from
// memory: a client that sees its write would not repeat it, but the restart loses the
// write.
func (s *Store) intact() error {
	select {
	case <-s.failed:
		return mongoerr.New(mongoerr.InterruptedAtShutdown, "interrupted at shutdown: the journal cannot be written")
	default:
		return nil
	}
}

// flush must end each write before the lock is released. It writes the journal first and
// appends the published entries to the log after that, so that a change stream never
// shows a change that a crash could lose.
func (s *Store) flush() error {
	if s.journal != nil {
		if err := s.journal.Flush(); err != nil {
			select {
			case <-s.failed:
			default:
				close(s.failed)
			}
			return mongoerr.New(mongoerr.InterruptedAtShutdown, "interrupted at shutdown: %v", err)
		}
	}
	if len(s.published) > 0 {
		s.log.Append(s.published...)
		clear(s.published)
		s.published = s.published[:0]
	}
	return nil
}

// publish queues entries for the log and appends them to the journal. They become visible
// at the next flush. ops are the document changes behind the entries; nil if there are
// none.
func (s *Store) publish(entries []*oplog.Entry, ops []op) {
	s.published = append(s.published, entries...)
	if s.journal == nil {
		return
	}
	b := bsonraw.NewBuilder(1024).StartArray(frameChanges)
	for i, e := range entries {
		b.Start(bsonraw.Index(i))
		writeEntry(b, e)
		if ops != nil {
			b.Int64("record", int64(ops[i].record.ID))
			if e.Kind == oplog.Update {
				b.Document("after", ops[i].record.Doc)
			}
		}
		b.End()
	}
	s.journal.Append(b.Bytes())
}

func (s *Store) keep(frame string, write func(*bsonraw.Builder)) {
	if s.journal != nil {
		s.journal.Append(frameOf(frame, write))
	}
}

func frameOf(name string, write func(*bsonraw.Builder)) []byte {
	b := bsonraw.NewBuilder(256).Start(name)
	write(b)
	return b.Bytes()
}

func writeEntry(b *bsonraw.Builder, e *oplog.Entry) {
	b.Timestamp("ts", e.TS).Int32("index", e.Index).Int32("kind", int32(e.Kind)).Int64("wall", e.Wall)
	b.String("db", e.DB).String("coll", e.Coll).Binary("uuid", 4, e.UUID[:])
	if e.First {
		b.Bool("first", true)
	}
	if e.Doc != nil {
		b.Document("doc", e.Doc)
	}
	if e.Key != nil {
		b.Document("key", e.Key)
	}
	if e.Description != nil {
		b.Document("description", e.Description)
	}
	if e.Kind == oplog.Rename {
		b.String("toDB", e.ToDB).String("toColl", e.ToColl)
	}
	if e.DropTarget != nil {
		b.Binary("dropTarget", 4, e.DropTarget[:])
	}
	if e.Txn != nil {
		b.Document("session", e.Txn.Session).Int64("txnNumber", e.Txn.Number)
	}
	if e.Message != "" {
		b.String("message", e.Message)
	}
}

func readEntry(doc bson.Raw) *oplog.Entry {
	e := &oplog.Entry{
		Kind: oplog.Kind(doc.Lookup("kind").Int32()), Index: doc.Lookup("index").Int32(), Wall: doc.Lookup("wall").Int64(),
		DB: doc.Lookup("db").StringValue(), Coll: doc.Lookup("coll").StringValue(), UUID: uuidIn(doc, "uuid"),
		Doc: documentIn(doc, "doc"), Key: documentIn(doc, "key"), Description: documentIn(doc, "description"),
	}
	e.TS.T, e.TS.I = doc.Lookup("ts").Timestamp()
	e.First, _ = doc.Lookup("first").BooleanOK()
	e.ToDB, _ = doc.Lookup("toDB").StringValueOK()
	e.ToColl, _ = doc.Lookup("toColl").StringValueOK()
	e.Message, _ = doc.Lookup("message").StringValueOK()
	if _, ok := bsonraw.Lookup(doc, "dropTarget"); ok {
		id := uuidIn(doc, "dropTarget")
		e.DropTarget = &id
	}
	if session := documentIn(doc, "session"); session != nil {
		e.Txn = &oplog.Transaction{Session: session, Number: doc.Lookup("txnNumber").Int64()}
	}
	return e
}

func documentIn(doc bson.Raw, name string) []byte {
	v, ok := bsonraw.Lookup(doc, name)
	if !ok {
		return nil
	}
	return v.Data
}

func uuidIn(doc bson.Raw, name string) (id [16]byte) {
	v, _ := bsonraw.Lookup(doc, name)
	_, data := v.Binary()
	copy(id[:], data)
	return id
}

// snapshotFrames appends frames that recreate the current state of the store, without its
// past changes.
func (s *Store) snapshotFrames(next *journal.Journal) {
	for ns, c := range s.collections {
		next.Append(frameOf(frameCollection, func(b *bsonraw.Builder) { writeCollection(b, c) }))
		for _, x := range c.indexes[1:] {
			next.Append(frameOf(frameIndex, func(b *bsonraw.Builder) { writeIndex(b, ns, x) }))
		}
		for it, ok := c.records.Iter(), true; ok; {
			if ok = it.Next(); ok {
				next.Append(frameOf(frameDocument, func(b *bsonraw.Builder) {
					b.String("db", ns.DB).String("coll", ns.Coll).Int64("record", int64(it.Key())).Document("doc", it.Value().Doc)
				}))
			}
		}
	}
	for _, e := range s.log.All() {
		next.Append(frameOf(frameHistory, func(b *bsonraw.Builder) { writeEntry(b, e) }))
	}
}

func writeCollection(b *bsonraw.Builder, c *Collection) {
	b.String("db", c.NS.DB).String("coll", c.NS.Coll).Binary("uuid", 4, c.UUID[:])
	writeOptions(b, c)
}

func writeOptions(b *bsonraw.Builder, c *Collection) {
	if c.Options != nil {
		b.Document("options", c.Options.Doc)
	}
}

// writeAltered writes a collection after a collMod, and the changed index if x is not
// nil.
func writeAltered(b *bsonraw.Builder, c *Collection, x *Index) {
	b.String("db", c.NS.DB).String("coll", c.NS.Coll)
	writeOptions(b, c)
	if x != nil {
		b.Start("index")
		writeIndex(b, c.NS, x)
		b.End()
	}
}

func writeIndex(b *bsonraw.Builder, ns Namespace, x *Index) {
	b.String("db", ns.DB).String("coll", ns.Coll).String("name", x.Name).Document("key", x.Pattern)
	b.Bool("unique", x.Unique).Bool("sparse", x.Sparse)
	if x.ExpireAfter != nil {
		b.Int32("expireAfterSeconds", *x.ExpireAfter)
	}
	if x.Hidden {
		b.Bool("hidden", true)
	}
	if x.Partial != nil {
		b.Document("partialFilterExpression", x.Partial)
	}
	if x.Collation != nil {
		b.Document("collation", x.Collation.Doc)
	}
}
