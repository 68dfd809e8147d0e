package command

import (
	"context"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// codeNoLocal is the error code of a mongos for commands on the database local.
const codeNoLocal mongoerr.Code = 13644

// Only a sharded cluster returns these codes.
const (
	alreadyInitialized   mongoerr.Code = 23
	shardKeyNotFound     mongoerr.Code = 61
	shardNotFound        mongoerr.Code = 70
	commandFailed        mongoerr.Code = 125
	zoneNotFound         mongoerr.Code = 177
	rangeOverlapConflict mongoerr.Code = 178
)

// throughMongos returns an error for commands that a mongos refuses and, on a replica
// set, for commands that only a mongos has.
func (e *Engine) throughMongos(r *Request) error {
	switch {
	case !e.Sharded && r.command.sharded:
		return mongoerr.New(mongoerr.CommandNotFound, "no such command: '%s'", r.Name)
	case !e.Sharded:
		return nil
	case r.Name == "replSetGetStatus":
		return mongoerr.New(commandFailed, "replSetGetStatus is not supported through mongos")
	case r.DB == "local":
		return mongoerr.New(codeNoLocal, "can't use 'local' database through mongos")
	case r.DB == "config" && !r.command.reads && r.Name != "killCursors":
		return mongoerr.Lacking("%s on the database config of a mongos", r.Name)
	}
	return nil
}

// describeRouter adds the fields of a mongos to hello. A mongos does not list members.
func (e *Engine) describeRouter(r *Request, b *bsonraw.Builder) {
	if r.Name == "hello" {
		b.Bool("isWritablePrimary", true)
	} else {
		b.Bool("ismaster", true)
	}
	b.String("msg", "isdbgrid")
}

// sharding is a parsed shardCollection command.
type sharding struct {
	ns     store.Namespace
	key    []byte
	unique bool
	// simple says that the command specifies the simple collation.
	simple bool
	// chunks says that the command specifies a number of initial chunks.
	chunks bool
}

// shardCollection records the shard key of a collection. It creates the collection and
// the index on the key if they are missing.
func shardCollection(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	s, err := parseSharding(r)
	if err != nil {
		return err
	}
	return e.exclusively(ctx, func(w *store.Writer) error {
		c := w.Collection(s.ns)
		if err := s.checkCollation(c); err != nil {
			return err
		}
		if old, ok := e.cluster.get(s.ns); ok {
			if bsonraw.CompareDocuments(old.key, s.key) != 0 || old.unique != s.unique {
				return mongoerr.New(alreadyInitialized, "sharding already enabled for collection %s", s.ns)
			}
			b.String("collectionsharded", s.ns.String())
			return nil
		}
		if s.chunks && (!hashed(s.key) || c != nil && c.Len() > 0) {
			return mongoerr.New(mongoerr.InvalidOptions, "numInitialChunks is only supported when the collection is empty and has a hashed field in the shard key pattern")
		}
		if err := e.cluster.checkZones(s.ns, s.key); err != nil {
			return err
		}
		if err := s.index(w, c); err != nil {
			return err
		}
		c = w.Collection(s.ns)
		e.cluster.shard(s.ns, shardedCollection{key: s.key, unique: s.unique, uuid: c.UUID, collation: c.Options.DefaultCollation(), at: e.Store.Clock().Last()})
		b.String("collectionsharded", s.ns.String())
		return nil
	}, s.ns)
}

func parseSharding(r *Request) (s sharding, err error) {
	if s.ns, err = r.fullNamespace(); err != nil {
		return s, err
	}
	if err := r.options(func(option string, v bsonraw.Value) (known bool, err error) {
		switch option {
		case "key":
			s.key, err = documentOption(r, option, v)
		case "unique":
			err = r.flag(option, v, &s.unique)
		case "collation":
			var by *collation.Collation
			if by, err = collation.Parse(v); err == nil && by != nil {
				err = mongoerr.New(mongoerr.BadValue, "The collation for shardCollection must be {locale: 'simple'}, but found: %s", bsonraw.Format(v))
			}
			s.simple = true
		case "numInitialChunks":
			n, ok := bsonraw.Int64(v)
			if !ok || n < 0 {
				err = mongoerr.New(mongoerr.InvalidOptions, "numInitialChunks must be a non-negative number: %s", bsonraw.Format(v))
			}
			s.chunks = n > 0
		case "presplitHashedZones":
			err = r.unset(option, v)
		default:
			return false, nil
		}
		return true, err
	}); err != nil {
		return s, err
	}
	return s, s.checkKey()
}

// fullNamespace returns the namespace in the first field of a command on the database
// admin.
func (r *Request) fullNamespace() (store.Namespace, error) {
	if r.value.Type != bsoncore.TypeString {
		return store.Namespace{}, wrongType(r.Name, r.Name, r.value, "string")
	}
	ns := splitNamespace(string(bsonraw.Text(r.value)))
	if ns.DB == "" || ns.Coll == "" {
		return ns, mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", bsonraw.Text(r.value))
	}
	return ns, store.CheckNamespace(ns)
}

// checkKey checks the shard key. All fields must be ascending, except that one field may
// be hashed.
func (s sharding) checkKey() error {
	if bsonraw.Empty(s.key) {
		return mongoerr.New(mongoerr.InvalidOptions, "cannot have empty shard key")
	}
	n := 0
	for it := bsonraw.NewIter(s.key); it.Next(); {
		switch v := it.Value(); {
		case store.IsHashed(v):
			n++
		case !bsonraw.IsNumber(v) || bsonraw.Float64(v) != 1:
			n = 2
		}
	}
	switch {
	case n > 1:
		return mongoerr.New(mongoerr.BadValue, "Shard key %s can contain either a single 'hashed' field or multiple numerical fields set to a value of 1. Failed to parse field", bsonraw.FormatDocument(s.key))
	case n == 1 && s.unique:
		return mongoerr.New(mongoerr.InvalidOptions, "Hashed shard keys cannot be declared unique. It's possible to ensure uniqueness on the hashed field by declaring an additional (non-hashed) unique index on the field.")
	}
	return nil
}

// checkCollation returns an error if the collection has a default collation and the
// command does not specify the simple one. c is nil if the collection does not exist.
func (s sharding) checkCollation(c *store.Collection) error {
	if c == nil || s.simple || c.Options.DefaultCollation() == nil {
		return nil
	}
	return mongoerr.New(mongoerr.BadValue, "Collection has default collation: %s. Must specify collation {locale: 'simple'}", bsonraw.FormatDocument(c.Options.DefaultCollation().Doc))
}

// index finds or creates the index on the shard key. c is nil if the collection does not
// exist.
func (s sharding) index(w *store.Writer, c *store.Collection) error {
	if c != nil {
		for _, x := range c.Indexes() {
			if x.Unique && !uniqueAcross(x.Pattern, s.key) {
				return mongoerr.New(mongoerr.InvalidOptions, "can't shard collection '%s' with unique index on %s and proposed shard key %s. Uniqueness can't be maintained unless shard key is a prefix",
					s.ns, bsonraw.FormatDocument(x.Pattern), bsonraw.FormatDocument(s.key))
			}
		}
		for _, x := range c.Indexes() {
			if x.Collation == nil && x.Partial == nil && !x.Sparse && beginsAs(x.Pattern, s.key) {
				return nil
			}
		}
		switch {
		case isIDPattern(s.key):
			return mongoerr.New(mongoerr.BadValue, "The _id index must have the same collation as the collection. Index collation: { locale: \"simple\" }, collection collation: %s", bsonraw.FormatDocument(c.Options.DefaultCollation().Doc))
		case c.Len() > 0:
			return mongoerr.New(mongoerr.InvalidOptions, "Please create an index that starts with the proposed shard key before sharding the collection")
		}
	}
	var name []string
	for it := bsonraw.NewIter(s.key); it.Next(); {
		kind := "1"
		if store.IsHashed(it.Value()) {
			kind = "hashed"
		}
		name = append(name, string(it.Key())+"_"+kind)
	}
	_, err := w.CreateIndexes(s.ns, store.IndexSpec{Name: strings.Join(name, "_"), Pattern: s.key, Unique: s.unique && !isIDPattern(s.key), Collated: true})
	return err
}

// checkUnique returns an error for a unique index that cannot be enforced across shards.
func (e *Engine) checkUnique(ns store.Namespace, s store.IndexSpec) error {
	c, ok := e.cluster.get(ns)
	if !ok || !s.Unique || uniqueAcross(s.Pattern, c.key) {
		return nil
	}
	return mongoerr.New(mongoerr.CannotCreateIndex, "cannot create unique index over %s with shard key pattern %s",
		bsonraw.FormatDocument(s.Pattern), bsonraw.FormatDocument(c.key))
}

// uniqueAcross reports whether a collection with this shard key can have a unique index.
// The index must begin with _id, which each shard keeps unique by itself, or with the
// shard key.
func uniqueAcross(pattern, key []byte) bool {
	first := bsonraw.NewIter(pattern)
	return first.Next() && string(first.Key()) == "_id" || hasPrefix(pattern, key, func(_, _ bsonraw.Value) bool { return true })
}

// beginsAs reports whether pattern begins with the fields of key, with the same order or
// hashing.
func beginsAs(pattern, key []byte) bool {
	return hasPrefix(pattern, key, func(a, b bsonraw.Value) bool {
		return store.IsHashed(a) == store.IsHashed(b) && (store.IsHashed(a) || bsonraw.Float64(a) == bsonraw.Float64(b))
	})
}

func hasPrefix(pattern, prefix []byte, same func(a, b bsonraw.Value) bool) bool {
	p := bsonraw.NewIter(pattern)
	for it := bsonraw.NewIter(prefix); it.Next(); {
		if !p.Next() || string(p.Key()) != string(it.Key()) || !same(p.Value(), it.Value()) {
			return false
		}
	}
	return true
}

// hashed reports whether a shard key has a hashed field.
func hashed(key []byte) bool {
	for it := bsonraw.NewIter(key); it.Next(); {
		if store.IsHashed(it.Value()) {
			return true
		}
	}
	return false
}
