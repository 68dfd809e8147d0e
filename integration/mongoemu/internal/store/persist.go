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

// A frame of the journal is one document with one field, which says what it is:
//
//	collection  a collection is made: its namespace and UUID
//	index       an index is made;  unindex: one is dropped
//	altered     options of a collection, or an index of it, are others now
//	document    a document of a collection, as a rewritten journal begins with
//	changes     entries of the log of one moment, with what they need to be done
//	            again
//	history     an entry of the log that is done already
const (
	frameCollection = "collection"
	frameIndex      = "index"
	frameUnindex    = "unindex"
	frameAltered    = "altered"
	frameDocument   = "document"
	frameChanges    = "changes"
	frameHistory    = "history"
)

// Open makes a store of what is in a directory, and keeps all its changes there:
// collections, indexes, documents and the log, but not what sessions know. It is
// closed by [Store.Close].
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

// Close gives the directory back. A store without one does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal == nil {
		return nil
	}
	return s.journal.Close()
}

// Failed is closed when the journal could not be written, for example because the disk
// is full. Memory is ahead of the disk then, so the process must end.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// intact fails when the journal has failed. Nobody may read what memory has and the disk
// may not have: a reader who finds a write done would not do it again after the restart.
func (s *Store) intact() error {
	select {
	case <-s.failed:
		return mongoerr.New(mongoerr.InterruptedAtShutdown, "interrupted at shutdown: the journal cannot be written")
	default:
		return nil
	}
}

// flush ends a write before the lock is given up: what was published is handed to
// the journal's file and only then shown in the log, so that no change stream
// tells of what the end of the process could take back.
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

// publish appends entries to the log and to the journal, where the next flush
// makes them seen; ops are the changes of documents that they stand for, nil where
// they are of none.
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

// snapshotFrames writes the store as it is: what a journal would say that led
// here without a detour.
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

// writeAltered tells of a collection as collMod left it, and of the index that it
// changed, nil for none.
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
