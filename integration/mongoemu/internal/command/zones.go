package command

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// addShardToZone adds the shard to a zone. Key ranges can then be assigned to the zone.
func addShardToZone(_ context.Context, e *Engine, r *Request, _ *bsonraw.Builder) error {
	zone, err := shardAndZone(r)
	if err != nil {
		return err
	}
	e.cluster.mu.Lock()
	defer e.cluster.mu.Unlock()
	if !slices.Contains(e.cluster.zones, zone) {
		e.cluster.zones = append(e.cluster.zones, zone)
	}
	return nil
}

func shardAndZone(r *Request) (zone string, err error) {
	if r.value.Type != bsoncore.TypeString {
		return "", wrongType(r.Name, r.Name, r.value, "string")
	}
	if err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		if key != "zone" {
			return false, nil
		}
		if v.Type != bsoncore.TypeString {
			return true, wrongType(r.Name, key, v, "string")
		}
		zone = string(bsonraw.Text(v))
		return true, nil
	}); err != nil {
		return "", err
	}
	switch name := string(bsonraw.Text(r.value)); {
	case zone == "":
		return "", mongoerr.New(mongoerr.BadValue, "zone cannot be empty")
	case name != shardName:
		return "", mongoerr.New(shardNotFound, "shard %s does not exist", name)
	}
	return zone, nil
}

// updateZoneKeyRange assigns a range of shard keys to a zone, or removes the range.
func updateZoneKeyRange(_ context.Context, e *Engine, r *Request, _ *bsonraw.Builder) error {
	z := zoneRange{id: bson.NewObjectID()}
	given, remove := false, false
	var err error
	if z.ns, err = r.fullNamespace(); err != nil {
		return err
	}
	if err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case "min":
			z.min, err = documentOption(r, key, v)
		case "max":
			z.max, err = documentOption(r, key, v)
		case "zone":
			given, remove = true, v.Type == bsoncore.TypeNull
			if !remove && v.Type != bsoncore.TypeString {
				return true, wrongType(r.Name, key, v, "string")
			}
			if !remove {
				z.zone = string(bsonraw.Text(v))
			}
		default:
			return false, nil
		}
		return true, err
	}); err != nil {
		return err
	}
	switch {
	case bsonraw.Empty(z.min) || bsonraw.Empty(z.max) || !given:
		return mongoerr.New(mongoerr.FailedToParse, "updateZoneKeyRange needs min, max and zone")
	case bsonraw.CompareDocuments(z.min, z.max) >= 0:
		return mongoerr.New(mongoerr.FailedToParse, "min: %s should be less than max: %s", bsonraw.FormatDocument(z.min), bsonraw.FormatDocument(z.max))
	}
	e.cluster.mu.Lock()
	defer e.cluster.mu.Unlock()
	if remove {
		e.cluster.ranges = slices.DeleteFunc(e.cluster.ranges, z.same)
		return nil
	}
	return e.cluster.assign(z)
}

// same reports whether another range has the same bounds.
func (z zoneRange) same(other zoneRange) bool {
	return z.ns == other.ns && bsonraw.CompareDocuments(z.min, other.min) == 0 && bsonraw.CompareDocuments(z.max, other.max) == 0
}

// assign adds a range, unless an equal range exists.
func (c *cluster) assign(z zoneRange) error {
	if !slices.Contains(c.zones, z.zone) {
		return mongoerr.New(zoneNotFound, "zone %s does not exist", z.zone)
	}
	if s, ok := c.collections[z.ns]; ok {
		for _, bound := range [][]byte{z.min, z.max} {
			if !hasPrefix(s.key, bound, func(_, _ bsonraw.Value) bool { return true }) {
				return mongoerr.New(shardKeyNotFound, "%s is not a prefix of the shard key %s of ns: %s", bsonraw.FormatDocument(bound), bsonraw.FormatDocument(s.key), z.ns)
			}
			if bsonraw.Len(bound) != bsonraw.Len(s.key) {
				return mongoerr.Lacking("a range of a prefix of the shard key %s", bsonraw.FormatDocument(s.key))
			}
		}
		if err := checkHashedBounds(z.min, z.max, s.key); err != nil {
			return err
		}
	}
	for _, other := range c.ranges {
		switch {
		case other.same(z) && other.zone == z.zone:
			return nil
		case other.ns == z.ns && bsonraw.CompareDocuments(z.min, other.max) < 0 && bsonraw.CompareDocuments(other.min, z.max) < 0:
			return mongoerr.New(rangeOverlapConflict, "Zone range: %s -->> %s on %s is overlapping with existing: %s -->> %s on %s",
				bsonraw.FormatDocument(z.min), bsonraw.FormatDocument(z.max), z.zone, bsonraw.FormatDocument(other.min), bsonraw.FormatDocument(other.max), other.zone)
		}
	}
	c.ranges = append(c.ranges, z)
	return nil
}

// checkHashedBounds returns an error if a bound of a hashed field is neither a hash nor
// MinKey or MaxKey.
func checkHashedBounds(lo, hi, key []byte) error {
	for it := bsonraw.NewIter(key); it.Next(); {
		if v := it.Value(); v.Type != bsoncore.TypeString {
			continue
		}
		for _, bound := range [][]byte{lo, hi} {
			switch v, _ := bsonraw.Lookup(bound, string(it.Key())); v.Type {
			case bsoncore.TypeInt64, bsoncore.TypeMinKey, bsoncore.TypeMaxKey:
			default:
				return mongoerr.New(mongoerr.InvalidOptions, "there exists a field in the range %s -->> %s not of type NumberLong, MinKey, or MaxKey which corresponds to a hashed field in the shard key pattern %s",
					bsonraw.FormatDocument(lo), bsonraw.FormatDocument(hi), bsonraw.FormatDocument(key))
			}
		}
	}
	return nil
}
