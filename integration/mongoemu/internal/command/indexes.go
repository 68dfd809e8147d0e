package command

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

func createIndexes(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.writable()
	if err != nil {
		return err
	}
	if err := r.options(func(key string, _ bsonraw.Value) (bool, error) {
		return key == "indexes" || key == "commitQuorum" || key == "ignoreUnknownIndexOptions", nil
	}); err != nil {
		return err
	}
	docs, err := r.list("indexes")
	if err != nil {
		return err
	}
	if len(docs) == 0 {
		return mongoerr.New(mongoerr.BadValue, "Must specify at least one index to create")
	}
	specs := make([]store.IndexSpec, len(docs))
	for i, d := range docs {
		if specs[i], err = parseIndex(r, d); err != nil {
			return err
		}
		if err := e.checkUnique(ns, specs[i]); err != nil {
			return err
		}
	}
	// If no index is missing, the server does not ask for the exclusive lock.
	mode := store.Exclusive
	if err := e.Store.View(nil, func(v *store.Viewer) error {
		if v.HasIndexes(ns, specs...) {
			mode = store.Intent
		}
		return nil
	}); err != nil {
		return err
	}
	unlock, err := e.Store.Lock(ctx, nil, mode, ns)
	if err != nil {
		return err
	}
	defer unlock()
	return e.Store.Do(ctx, nil, func(w *store.Writer) error {
		done, err := w.CreateIndexes(ns, specs...)
		if err != nil {
			return err
		}
		created := done.After > done.Before
		if created || done.NewCollection {
			b.Bool("createdCollectionAutomatically", done.NewCollection)
		}
		b.Int32("numIndexesBefore", int32(done.Before)).Int32("numIndexesAfter", int32(done.After))
		if created {
			b.String("commitQuorum", "votingMembers")
		} else {
			b.String("note", "all indexes already exist")
		}
		e.acknowledge(r, b)
		return nil
	})
}

func parseIndex(r *Request, doc []byte) (s store.IndexSpec, err error) {
	named := false
	for it := bsonraw.NewIter(doc); it.Next(); {
		v := it.Value()
		switch key := string(it.Key()); key {
		case "key":
			s.Pattern, err = documentOption(r, "indexes.key", v)
		case "name":
			if v.Type != bsoncore.TypeString {
				return s, wrongType(r.Name, "indexes.name", v, "string")
			}
			s.Name, named = string(bsonraw.Text(v)), true
		case "unique":
			err = r.flag("indexes.unique", v, &s.Unique)
		case "sparse":
			err = r.flag("indexes.sparse", v, &s.Sparse)
		case "expireAfterSeconds":
			n, ok := bsonraw.Int64(v)
			if !ok || n < 0 || n > 1<<31-1 {
				return s, mongoerr.New(mongoerr.CannotCreateIndex, "TTL index 'expireAfterSeconds' option must be within an acceptable range, got %s", bsonraw.Format(v))
			}
			seconds := int32(n)
			s.ExpireAfter = &seconds
		case "background", "ns":
		case "v":
			if n, ok := bsonraw.Int64(v); !ok || n != 1 && n != 2 {
				return s, mongoerr.New(mongoerr.CannotCreateIndex, "Invalid index specification %s; cannot create an index with v=%s", bsonraw.FormatDocument(doc), bsonraw.Format(v))
			}
		case "hidden":
			err = r.flag("indexes.hidden", v, &s.Hidden)
		case "collation":
			s.Collation, err = collation.Parse(v)
			s.Collated = true
		case "partialFilterExpression":
			s.Partial, err = documentOption(r, "indexes.partialFilterExpression", v)
		case "storageEngine", "weights", "default_language", "language_override",
			"textIndexVersion", "2dsphereIndexVersion", "bits", "min", "max", "bucketSize", "wildcardProjection",
			"clustered", "dropDups", "prepareUnique":
			return s, mongoerr.Lacking("the index option %q", key)
		default:
			return s, mongoerr.New(mongoerr.InvalidIndexSpecificationOption, "The field '%s' is not valid for an index specification. Specification: %s", key, bsonraw.FormatDocument(doc))
		}
		if err != nil {
			return s, err
		}
	}
	switch {
	case s.Pattern == nil:
		return s, mongoerr.New(mongoerr.FailedToParse, "The 'key' field is a required property of an index specification")
	case !named:
		return s, mongoerr.New(mongoerr.FailedToParse, "The 'name' field is a required property of an index specification")
	case s.Name == "":
		return s, mongoerr.New(mongoerr.CannotCreateIndex, "index name cannot be empty")
	}
	return s, checkIDIndex(s)
}

func isIDPattern(pattern []byte) bool {
	first, ok := bsonraw.Lookup(pattern, "_id")
	return ok && bsonraw.Len(pattern) == 1 && bsonraw.Float64(first) == 1
}

// checkIDIndex returns an error if options are set on the index on _id, which cannot have
// any.
func checkIDIndex(s store.IndexSpec) error {
	if !isIDPattern(s.Pattern) {
		return nil
	}
	var option string
	switch {
	case s.Unique:
		option = "unique"
	case s.Sparse:
		option = "sparse"
	case s.ExpireAfter != nil:
		option = "expireAfterSeconds"
	case s.Partial != nil:
		option = "partialFilterExpression"
	case s.Hidden:
		return mongoerr.New(mongoerr.BadValue, "can't hide _id index")
	default:
		return nil
	}
	return mongoerr.New(mongoerr.InvalidIndexSpecificationOption, "The field '%s' is not valid for an _id index specification. Specification: { key: %s }", option, bsonraw.FormatDocument(s.Pattern))
}

func listIndexes(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	batch := defaultBatch
	if err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		if key == "cursor" {
			batch, err = cursorBatch(r, v)
			return true, err
		}
		return false, nil
	}); err != nil {
		return err
	}
	var docs [][]byte
	if err := e.Store.View(nil, func(v *store.Viewer) error {
		c := v.Collection(ns)
		if c == nil {
			return mongoerr.New(mongoerr.NamespaceNotFound, "ns does not exist: %s", ns)
		}
		for _, x := range c.Indexes() {
			docs = append(docs, x.Spec(ns))
		}
		return nil
	}); err != nil {
		return err
	}
	return e.firstBatch(ctx, r, b, &cursor{ns: ns, source: newList(docs)}, batch, false)
}

func dropIndexes(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	var index bsonraw.Value
	if err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		if key == "index" {
			index = v
			return true, nil
		}
		return false, nil
	}); err != nil {
		return err
	}
	return e.exclusively(ctx, func(w *store.Writer) error {
		c := w.Collection(ns)
		if c == nil {
			return mongoerr.New(mongoerr.NamespaceNotFound, "ns not found %s", ns)
		}
		names, err := namesToDrop(c, index)
		if err != nil {
			return err
		}
		before := len(c.Indexes())
		for _, n := range names {
			if err := w.DropIndex(w.Collection(ns), n); err != nil {
				return err
			}
		}
		b.Int32("nIndexesWas", int32(before))
		if index.Type == bsoncore.TypeString && string(bsonraw.Text(index)) == "*" {
			b.String("msg", "non-_id indexes dropped for collection")
		}
		e.acknowledge(r, b)
		return nil
	}, ns)
}

func namesToDrop(c *store.Collection, index bsonraw.Value) ([]string, error) {
	switch index.Type {
	case bsoncore.TypeString:
		name := string(bsonraw.Text(index))
		if name != "*" {
			return []string{name}, nil
		}
		var all []string
		for _, x := range c.Indexes() {
			if x.Name != "_id_" {
				all = append(all, x.Name)
			}
		}
		return all, nil
	case bsoncore.TypeArray:
		var names []string
		for _, v := range bsonraw.Elements(index.Data) {
			if v.Type != bsoncore.TypeString {
				return nil, wrongType("dropIndexes", "index", v, "string")
			}
			names = append(names, string(bsonraw.Text(v)))
		}
		return names, nil
	case bsoncore.TypeEmbeddedDocument:
		for _, x := range c.Indexes() {
			if bsonraw.CompareDocuments(x.Pattern, index.Data) == 0 {
				return []string{x.Name}, nil
			}
		}
		return nil, mongoerr.New(mongoerr.IndexNotFound, "can't find index with key: %s", bsonraw.Format(index))
	}
	return nil, wrongType("dropIndexes", "index", index, "string, object or array")
}
