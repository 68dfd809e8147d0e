package command

import (
	"bytes"
	"context"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

func create(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	given := bsonraw.NewBuilder(256)
	var idIndex []byte
	if err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case "capped":
			return true, r.unset(key, v)
		case "validator", "validationLevel", "validationAction", "collation":
			given.Value(key, v)
			return true, nil
		case "idIndex":
			idIndex, err = documentOption(r, key, v)
			return true, err
		case "autoIndexId", "size", "max", "timeseries", "clusteredIndex", "expireAfterSeconds",
			"viewOn", "pipeline", "storageEngine", "indexOptionDefaults",
			"changeStreamPreAndPostImages", "encryptedFields":
			return true, mongoerr.Lacking("the create option %q", key)
		}
		return false, nil
	}); err != nil {
		return err
	}
	options, err := store.ParseOptions(ns, given.Bytes())
	if err != nil {
		return err
	}
	if err := checkIDSpec(r, idIndex, options); err != nil {
		return err
	}
	mode := store.Intent
	err = e.Store.View(nil, func(v *store.Viewer) error {
		if v.Collection(ns) != nil {
			mode = store.Exclusive
		}
		return nil
	})
	if err != nil {
		return err
	}
	unlock, err := e.Store.Lock(ctx, nil, mode, ns)
	if err != nil {
		return err
	}
	defer unlock()
	e.acknowledge(r, b)
	return e.Store.Do(ctx, nil, func(w *store.Writer) error {
		_, err := w.Create(ns, options)
		return err
	})
}

// checkIDSpec checks the index on _id that create specifies, as mongorestore does. It
// must be the index that the collection gets anyway. spec is nil if the command specifies
// none.
func checkIDSpec(r *Request, spec []byte, options *store.Options) error {
	if spec == nil {
		return nil
	}
	s, err := parseIndex(r, spec)
	switch {
	case err != nil:
		return err
	case !isIDPattern(s.Pattern):
		return mongoerr.New(mongoerr.BadValue, "The field 'key' for an _id index must be {_id: 1}, but got %s", bsonraw.FormatDocument(s.Pattern))
	case s.Collated && !collation.Equal(s.Collation, options.Collation):
		return mongoerr.New(mongoerr.BadValue, "'idIndex' must have the same collation as the collection.")
	}
	return nil
}

func drop(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	var uuid []byte
	if err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		if key != "collectionUUID" {
			return false, nil
		}
		if v.Type != bsoncore.TypeBinary {
			return true, mongoerr.New(mongoerr.TypeMismatch, "BSON field 'drop.collectionUUID' is the wrong type '%s', expected type 'binData'", bsonraw.TypeName(v.Type))
		}
		_, uuid = v.Binary()
		return true, nil
	}); err != nil {
		return err
	}
	return e.exclusively(ctx, func(w *store.Writer) error {
		// MongoDB accepts the UUID since 6.0. Its test of the command (collection_uuid_drop.js)
		// expects this error for another collection of the name, and for a missing one.
		if named := w.Collection(ns); uuid != nil && (named == nil || !bytes.Equal(named.UUID[:], uuid)) {
			return mongoerr.New(mongoerr.CollectionUUIDMismatch, "Collection UUID does not match that specified")
		}
		c, err := w.Drop(ns)
		if err != nil {
			return err
		}
		if c == nil { // an error until MongoDB 7.0; later versions report success
			return mongoerr.New(mongoerr.NamespaceNotFound, "ns not found")
		}
		e.cluster.forget(func(sharded store.Namespace) bool { return sharded == ns })
		b.Int32("nIndexesWas", int32(len(c.Indexes()))).String("ns", ns.String())
		e.acknowledge(r, b)
		return nil
	}, ns)
}

func dropDatabase(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	if err := r.noOptions(); err != nil {
		return err
	}
	return e.exclusively(ctx, func(w *store.Writer) error {
		existed, err := w.DropDatabase(r.DB)
		if existed {
			e.cluster.forget(func(sharded store.Namespace) bool { return sharded.DB == r.DB })
			b.String("dropped", r.DB)
		}
		e.acknowledge(r, b)
		return err
	}, store.Namespace{DB: r.DB})
}

func renameCollection(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	var to string
	dropTarget := false
	if err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		switch key {
		case "to":
			if v.Type != bsoncore.TypeString {
				return true, wrongType(r.Name, key, v, "string")
			}
			to = string(bsonraw.Text(v))
		case "dropTarget":
			return true, r.flag(key, v, &dropTarget)
		default:
			return false, nil
		}
		return true, nil
	}); err != nil {
		return err
	}
	if r.value.Type != bsoncore.TypeString {
		return wrongType(r.Name, r.Name, r.value, "string")
	}
	source, target := splitNamespace(string(bsonraw.Text(r.value))), splitNamespace(to)
	return e.exclusively(ctx, func(w *store.Writer) error {
		e.acknowledge(r, b)
		if e.Sharded && w.Collection(source) != nil && (dropTarget || w.Collection(target) == nil) && e.cluster.zoned(target) {
			return mongoerr.New(commandFailed, "Can't rename to target collection %s because it must not have associated tags", target)
		}
		err := w.Rename(source, target, dropTarget)
		if err == nil {
			e.cluster.rename(source, target, e.Store.Clock().Last())
		}
		return err
	}, source, target)
}

func splitNamespace(s string) store.Namespace {
	db, coll, _ := strings.Cut(s, ".")
	return store.Namespace{DB: db, Coll: coll}
}

// listing is a parsed listDatabases or listCollections.
type listing struct {
	nameOnly bool
	filter   *query.Matcher
	batch    int
}

// parseListing parses a listing. other handles the fields that only one of the two
// commands has.
func parseListing(r *Request, other func(l *listing, key string, v bsonraw.Value) (known bool, err error)) (listing, error) {
	l := listing{batch: defaultBatch}
	filter := emptyDocument
	err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case "nameOnly":
			err = r.flag(key, v, &l.nameOnly)
		case "filter":
			filter, err = documentOption(r, key, v)
		default:
			return other(&l, key, v)
		}
		return true, err
	})
	if err == nil {
		l.filter, err = query.Compile(filter, expr.Vars{})
	}
	return l, err
}

func listDatabases(_ context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	l, err := parseListing(r, func(_ *listing, key string, _ bsonraw.Value) (bool, error) {
		return key == "authorizedDatabases", nil
	})
	if err != nil {
		return err
	}
	return e.Store.View(nil, func(v *store.Viewer) error {
		total, i := int64(0), 0
		b.StartArray("databases")
		for _, db := range v.Databases() {
			size := int64(0)
			for _, n := range v.Names(db) {
				size += v.Collection(store.Namespace{DB: db, Coll: n}).Bytes()
			}
			d := bsonraw.NewBuilder(64).String("name", db)
			if !l.nameOnly {
				d.Int64("sizeOnDisk", size).Bool("empty", size == 0)
			}
			doc := d.Bytes()
			ok, err := l.filter.Match(doc)
			if err != nil {
				return err
			}
			if ok {
				b.Document(bsonraw.Index(i), doc)
				total += size
				i++
			}
		}
		b.End()
		if !l.nameOnly {
			b.Int64("totalSize", total).Int64("totalSizeMb", total>>20)
		}
		return nil
	})
}

var emptyDocument = []byte{5, 0, 0, 0, 0}

func listCollections(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	l, err := parseListing(r, func(l *listing, key string, v bsonraw.Value) (known bool, err error) {
		if key == "cursor" {
			l.batch, err = cursorBatch(r, v)
		}
		return key == "cursor" || key == "authorizedCollections", err
	})
	if err != nil {
		return err
	}
	unlock, err := e.Store.Lock(ctx, nil, store.Intent, store.Namespace{DB: r.DB})
	if err != nil {
		return err
	}
	defer unlock()
	var docs [][]byte
	if err := e.Store.View(nil, func(v *store.Viewer) error {
		for _, n := range v.Names(r.DB) {
			doc := describeCollection(v.Collection(store.Namespace{DB: r.DB, Coll: n}), l.nameOnly)
			ok, err := l.filter.Match(doc)
			if err != nil {
				return err
			}
			if ok {
				docs = append(docs, doc)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	ns := store.Namespace{DB: r.DB, Coll: "$cmd.listCollections"}
	return e.firstBatch(ctx, r, b, &cursor{ns: ns, source: newList(docs)}, l.batch, false)
}

func describeCollection(c *store.Collection, nameOnly bool) []byte {
	d := bsonraw.NewBuilder(256).String("name", c.NS.Coll).String("type", "collection")
	if nameOnly {
		return d.Bytes()
	}
	if c.Options != nil {
		d.Document("options", c.Options.Doc)
	} else {
		d.Start("options").End()
	}
	d.Start("info").Bool("readOnly", false).Binary("uuid", 4, c.UUID[:]).End()
	d.Document("idIndex", c.Indexes()[0].Spec(c.NS))
	return d.Bytes()
}
