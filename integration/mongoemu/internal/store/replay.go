package store

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
)

// errJournal says that the frames of a journal contradict each other.
var errJournal = errors.New("the journal contradicts itself")

// replay applies one frame of the journal.
func (s *Store) replay(frame []byte) error {
	if err := bsonraw.Validate(frame); err != nil {
		return err
	}
	it := bsonraw.NewIter(frame)
	it.Next()
	doc := bson.Raw(it.Value().Data)
	switch name := string(it.Key()); name {
	case frameCollection:
		ns := namespaceIn(doc)
		options, err := optionsIn(ns, doc)
		s.collections[ns] = newCollection(ns, uuidIn(doc, "uuid"), options)
		return err
	case frameIndex:
		return s.replayIndex(doc)
	case frameAltered:
		return s.replayAltered(doc)
	case frameUnindex:
		c := s.collections[namespaceIn(doc)]
		if c == nil {
			return fmt.Errorf("%w: no collection to drop an index of", errJournal)
		}
		s.collections[c.NS] = c.without(doc.Lookup("name").StringValue())
		return nil
	case frameDocument:
		return s.replayDocument(namespaceIn(doc), uint64(doc.Lookup("record").Int64()), documentIn(doc, "doc"))
	case frameHistory:
		s.log.Append(readEntry(doc))
		return nil
	case frameChanges:
		for it := bsonraw.NewIter(doc); it.Next(); {
			if err := s.replayChange(it.Value().Data); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("%w: unknown frame %q", errJournal, name)
	}
}

func namespaceIn(doc bson.Raw) Namespace {
	return Namespace{DB: doc.Lookup("db").StringValue(), Coll: doc.Lookup("coll").StringValue()}
}

func (s *Store) replayIndex(doc bson.Raw) error {
	spec := IndexSpec{Name: doc.Lookup("name").StringValue(), Pattern: documentIn(doc, "key")}
	spec.Unique, spec.Sparse = doc.Lookup("unique").Boolean(), doc.Lookup("sparse").Boolean()
	if n, ok := doc.Lookup("expireAfterSeconds").Int32OK(); ok {
		spec.ExpireAfter = &n
	}
	spec.Hidden, _ = doc.Lookup("hidden").BooleanOK()
	spec.Partial, spec.Collated = documentIn(doc, "partialFilterExpression"), true
	if v, ok := bsonraw.Lookup(doc, "collation"); ok {
		var err error
		if spec.Collation, err = collation.Parse(v); err != nil {
			return err
		}
	}
	c := s.collections[namespaceIn(doc)]
	if c == nil {
		return fmt.Errorf("%w: no collection to index", errJournal)
	}
	next, err := c.with(spec)
	if err == nil {
		s.collections[c.NS] = next
	}
	return err
}

// optionsIn returns a collection's options from a frame; nil if there are none.
func optionsIn(ns Namespace, doc bson.Raw) (*Options, error) {
	options := documentIn(doc, "options")
	if options == nil {
		return nil, nil
	}
	return ParseOptions(ns, options)
}

func (s *Store) replayAltered(doc bson.Raw) error {
	c := s.collections[namespaceIn(doc)]
	if c == nil {
		return fmt.Errorf("%w: no collection to alter", errJournal)
	}
	next := *c
	var err error
	if next.Options, err = optionsIn(c.NS, doc); err != nil {
		return err
	}
	if index := documentIn(doc, "index"); index != nil {
		index := bson.Raw(index)
		change := &IndexChange{Name: index.Lookup("name").StringValue()}
		if n, ok := index.Lookup("expireAfterSeconds").Int32OK(); ok {
			change.ExpireAfter = &n
		}
		hidden, _ := index.Lookup("hidden").BooleanOK()
		change.Hidden = &hidden
		i, err := c.changed(change)
		if err != nil {
			return err
		}
		next.indexes = append([]*Index(nil), c.indexes...)
		next.indexes[i] = c.indexes[i].altered(change)
	}
	s.collections[c.NS] = &next
	return nil
}

// replayDocument replaces a record's version of a document, or adds the record.
func (s *Store) replayDocument(ns Namespace, id uint64, doc []byte) error {
	c := s.collections[ns]
	if c == nil {
		return fmt.Errorf("%w: a document of %s, which is not there", errJournal, ns)
	}
	s.nextRecord = max(s.nextRecord, id)
	r := &Record{ID: id, Doc: doc}
	ks, err := c.keysOf(doc, id)
	if err != nil {
		return err
	}
	old := c.Current(r)
	var oldKeys keys
	if old != nil {
		if oldKeys, err = c.keysOf(old.Doc, id); err != nil {
			return err
		}
	}
	c.put(r, ks, old, oldKeys)
	return nil
}

func (s *Store) replayChange(doc bson.Raw) error {
	e := readEntry(doc)
	s.log.Append(e)
	ns := Namespace{DB: e.DB, Coll: e.Coll}
	switch e.Kind {
	case oplog.Insert, oplog.Replace:
		return s.replayDocument(ns, uint64(doc.Lookup("record").Int64()), e.Doc)
	case oplog.Update:
		return s.replayDocument(ns, uint64(doc.Lookup("record").Int64()), documentIn(doc, "after"))
	case oplog.Delete:
		c := s.collections[ns]
		if c == nil {
			return fmt.Errorf("%w: a deletion from %s, which is not there", errJournal, ns)
		}
		old := c.Current(&Record{ID: uint64(doc.Lookup("record").Int64())})
		if old == nil {
			return fmt.Errorf("%w: a deletion of what is not there", errJournal)
		}
		ks, err := c.keysOf(old.Doc, old.ID)
		if err == nil {
			c.remove(old, ks)
		}
		return err
	case oplog.Drop:
		delete(s.collections, ns)
	case oplog.Rename:
		if s.collections[ns] == nil {
			return fmt.Errorf("%w: a new name for %s, which is not there", errJournal, ns)
		}
		s.rename(ns, Namespace{DB: e.ToDB, Coll: e.ToColl})
	}
	return nil
}
