package command

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// shardName is the name of the only shard behind a mongos.
const shardName = "shard-0"

// cluster is the state of the config servers, in memory only. The zero value has no
// sharded collections and no zones.
type cluster struct {
	mu          sync.Mutex
	collections map[store.Namespace]shardedCollection
	ranges      []zoneRange
	// zones are the zones of the shard.
	zones []string
}

// shardedCollection is an entry of config.collections.
type shardedCollection struct {
	key       []byte
	unique    bool
	uuid      [16]byte
	collation *collation.Collation
	// at is the cluster time at which the collection was sharded or got its current name.
	at bson.Timestamp
}

// zoneRange is an entry of config.tags.
type zoneRange struct {
	id       bson.ObjectID
	ns       store.Namespace
	min, max []byte
	zone     string
}

func (c *cluster) get(ns store.Namespace) (shardedCollection, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.collections[ns]
	return s, ok
}

func (c *cluster) shard(ns store.Namespace, s shardedCollection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.collections == nil {
		c.collections = make(map[store.Namespace]shardedCollection)
	}
	c.collections[ns] = s
}

// forget removes collections that no longer exist, and their zone ranges.
func (c *cluster) forget(gone func(store.Namespace) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.collections, func(ns store.Namespace, _ shardedCollection) bool { return gone(ns) })
	c.ranges = slices.DeleteFunc(c.ranges, func(z zoneRange) bool { return gone(z.ns) })
}

// zoned reports whether a namespace has zone ranges.
func (c *cluster) zoned(ns store.Namespace) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.ranges, func(z zoneRange) bool { return z.ns == ns })
}

// rename moves a collection's shard key and zone ranges to its new name. It removes the
// shard key of the replaced collection.
func (c *cluster) rename(from, to store.Namespace, at bson.Timestamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.collections[from]
	delete(c.collections, from)
	delete(c.collections, to)
	if ok {
		s.at = at
		c.collections[to] = s
	}
	for i := range c.ranges {
		if c.ranges[i].ns == from {
			c.ranges[i].ns = to
		}
	}
}

// checkZones returns an error if a shard key does not fit the zone ranges of the
// namespace.
func (c *cluster) checkZones(ns store.Namespace, key []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, z := range c.ranges {
		if z.ns != ns {
			continue
		}
		for _, bound := range [][]byte{z.min, z.max} {
			if bsonraw.Len(bound) != bsonraw.Len(key) || !hasPrefix(bound, key, func(_, _ bsonraw.Value) bool { return true }) {
				return mongoerr.New(mongoerr.InvalidOptions, "the proposed shard key %s does not match with the shard key of the existing zone %s -->> %s",
					bsonraw.FormatDocument(key), bsonraw.FormatDocument(z.min), bsonraw.FormatDocument(z.max))
			}
		}
		if err := checkHashedBounds(z.min, z.max, key); err != nil {
			return err
		}
	}
	return nil
}

// configDocuments returns the documents of a collection of the database config. known is
// false for collections that this server does not show.
func (c *cluster) configDocuments(name string) (docs [][]byte, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch name {
	case "collections":
		names := slices.SortedFunc(maps.Keys(c.collections), func(a, b store.Namespace) int {
			return slices.Compare([]string{a.DB, a.Coll}, []string{b.DB, b.Coll})
		})
		for _, ns := range names {
			docs = append(docs, c.collections[ns].document(ns))
		}
	case "tags":
		for _, z := range c.ranges {
			docs = append(docs, bsonraw.NewBuilder(128).ObjectID("_id", z.id).String("ns", z.ns.String()).
				Document("min", z.min).Document("max", z.max).String("tag", z.zone).Bytes())
		}
	case "shards":
		docs = append(docs, bsonraw.NewBuilder(64).String("_id", shardName).Int32("state", 1).Strings("tags", c.zones...).Bytes())
	default:
		return nil, false
	}
	return docs, true
}

func (s shardedCollection) document(ns store.Namespace) []byte {
	b := bsonraw.NewBuilder(256).String("_id", ns.String())
	b.Timestamp("timestamp", s.at).Binary("uuid", 4, s.uuid[:])
	if s.collation != nil {
		b.Document("defaultCollation", s.collation.Doc)
	}
	return b.Document("key", s.key).Bool("unique", s.unique).Bool("noBalance", false).Bytes()
}

// openConfig queries a collection of the database config. It only supports natural order.
func (e *Engine) openConfig(q store.Query) (source, error) {
	docs, known := e.cluster.configDocuments(q.NS.Coll)
	if !known {
		return nil, mongoerr.Lacking("the collection %s of a mongos", q.NS)
	}
	if q.Order != nil || q.Hint.Set() {
		return nil, mongoerr.Lacking("an order or a hint on %s", q.NS)
	}
	return filtered(slices.Values(docs), q)
}

// filtered returns the documents of a view that match a query.
func filtered(docs iter.Seq[[]byte], q store.Query) (source, error) {
	var found [][]byte
	for doc := range docs {
		ok, err := q.Filter.Match(doc)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			continue
		case q.Skip > 0:
			q.Skip--
			continue
		}
		found = append(found, doc)
		if q.Limit > 0 && int64(len(found)) == q.Limit {
			break
		}
	}
	return newList(found), nil
}
