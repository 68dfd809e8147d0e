package command

import (
	"context"
	"maps"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// codeNoLocal is what a mongos answers to commands on the database local.
const codeNoLocal mongoerr.Code = 13644

// commandFailed is the server's CommandFailed.
const commandFailed mongoerr.Code = 125

// shardKeys are the keys of the sharded collections. The zero value has none.
type shardKeys struct {
	mu   sync.Mutex
	keys map[store.Namespace][]byte
}

func (s *shardKeys) get(ns store.Namespace) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[ns]
}

func (s *shardKeys) set(ns store.Namespace, key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = make(map[store.Namespace][]byte)
	}
	s.keys[ns] = key
}

// forget drops the keys of collections that are gone.
func (s *shardKeys) forget(gone func(store.Namespace) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.keys, func(ns store.Namespace, _ []byte) bool { return gone(ns) })
}

// rename moves a collection's key to its new name, in place of the key of what the
// rename replaced.
func (s *shardKeys) rename(from, to store.Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := s.keys[from]
	delete(s.keys, from)
	delete(s.keys, to)
	if ok {
		s.keys[to] = key
	}
}

// throughMongos refuses what a mongos refuses, and what only a mongos knows where
// this server is none.
func (e *Engine) throughMongos(r *Request) error {
	switch {
	case !e.Sharded && r.Name == "shardCollection":
		return mongoerr.New(mongoerr.CommandNotFound, "no such command: '%s'", r.Name)
	case !e.Sharded:
		return nil
	case r.Name == "replSetGetStatus":
		return mongoerr.New(commandFailed, "replSetGetStatus is not supported through mongos")
	case r.DB == "local":
		return mongoerr.New(codeNoLocal, "can't use 'local' database through mongos")
	}
	return nil
}

// shardCollection notes the key of a collection, which it creates with the key's
// index where it is missing.
func shardCollection(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	if r.value.Type != bsoncore.TypeString {
		return wrongType(r.Name, r.Name, r.value, "string")
	}
	db, coll, ok := strings.Cut(string(bsonraw.Text(r.value)), ".")
	if !ok || db == "" || coll == "" {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", bsonraw.Text(r.value))
	}
	ns := store.Namespace{DB: db, Coll: coll}
	var key []byte
	if err := r.options(func(option string, v bsonraw.Value) (known bool, err error) {
		if option == "key" {
			key, err = documentOption(r, "key", v)
			return true, err
		}
		return false, nil
	}); err != nil {
		return err
	}
	if bsonraw.Empty(key) {
		return mongoerr.New(mongoerr.BadValue, "Shard key is empty")
	}
	for it := bsonraw.NewIter(key); it.Next(); {
		if v := it.Value(); bsonraw.Float64(v) != 1 {
			return mongoerr.Lacking("a shard key that is not ascending: %s", bsonraw.FormatDocument(key))
		}
	}
	return e.Store.Do(ctx, nil, func(w *store.Writer) error {
		has := false
		if c := w.Collection(ns); c != nil {
			for _, x := range c.Indexes() {
				// Each shard keeps _id unique by itself, in whatever collection.
				if x.Unique && x.Name != "_id_" && !startsWith(x.Pattern, key) {
					return mongoerr.New(mongoerr.InvalidOptions, "can't shard collection '%s' with unique index on %s and proposed shard key %s. Uniqueness can't be maintained unless shard key is a prefix",
						ns, bsonraw.FormatDocument(x.Pattern), bsonraw.FormatDocument(key))
				}
				has = has || startsWith(x.Pattern, key)
			}
		}
		if !has {
			var name []string
			for it := bsonraw.NewIter(key); it.Next(); {
				name = append(name, string(it.Key())+"_1")
			}
			if _, err := w.CreateIndexes(ns, store.IndexSpec{Name: strings.Join(name, "_"), Pattern: key}); err != nil {
				return err
			}
		}
		e.shards.set(ns, key)
		b.String("collectionsharded", ns.String())
		return nil
	})
}

// checkUnique refuses a unique index that the shards of a collection could not keep:
// one that does not begin with the shard key.
func (e *Engine) checkUnique(ns store.Namespace, s store.IndexSpec) error {
	key := e.shards.get(ns)
	if key == nil || !s.Unique || startsWith(s.Pattern, key) {
		return nil
	}
	return mongoerr.New(mongoerr.CannotCreateIndex, "cannot create unique index over %s with shard key pattern %s",
		bsonraw.FormatDocument(s.Pattern), bsonraw.FormatDocument(key))
}

// startsWith reports whether the first fields of pattern are those of prefix.
func startsWith(pattern, prefix []byte) bool {
	p := bsonraw.NewIter(pattern)
	for it := bsonraw.NewIter(prefix); it.Next(); {
		if !p.Next() || string(p.Key()) != string(it.Key()) {
			return false
		}
	}
	return true
}

// describeRouter is the hello of a mongos, which names no members.
func (e *Engine) describeRouter(r *Request, b *bsonraw.Builder) {
	if r.Name == "hello" {
		b.Bool("isWritablePrimary", true)
	} else {
		b.Bool("ismaster", true)
	}
	b.String("msg", "isdbgrid")
}
