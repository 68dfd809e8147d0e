package store

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// KeyPart is one field of an index or of a sort.
type KeyPart struct {
	Field string
	Path  []string
	Desc  bool
	// Hashed says that the index contains a hash of the value. It is never set in a sort.
	Hashed bool
}

// Index is an ordered tree from encoded keys to record ids. In an index that is not
// unique, each key ends with the record id, so that all keys differ.
type Index struct {
	Name    string
	Parts   []KeyPart
	Pattern []byte
	Unique  bool
	Sparse  bool
	// Hidden hides the index from the planner. Writes still maintain it.
	Hidden bool
	// Partial is the filter of the indexed documents and partial its matcher; nil if all
	// documents are indexed.
	Partial []byte
	partial *query.Matcher
	// Collation compares the strings in keys; nil compares byte by byte.
	Collation *collation.Collation
	// ExpireAfter is the time in seconds between the field's date and the document's
	// expiry; nil for no expiry.
	ExpireAfter *int32
	// Multikey says that a document has, or had, an array on an indexed path.
	Multikey bool
	tree     *btree.Map[string, uint64]
}

// IsHashed reports whether v, a value of a key pattern or shard key, is "hashed".
func IsHashed(v bsonraw.Value) bool {
	return v.Type == bsoncore.TypeString && string(bsonraw.Text(v)) == "hashed"
}

// hashed reports whether one of the index's fields is hashed.
func (x *Index) hashed() bool {
	return slices.ContainsFunc(x.Parts, func(p KeyPart) bool { return p.Hashed })
}

// ParseKeyPattern parses the key pattern of an index, such as {a: 1, b: -1, c: "hashed"}.
func ParseKeyPattern(pattern []byte) ([]KeyPart, error) {
	var parts []KeyPart
	for it := bsonraw.NewIter(pattern); it.Next(); {
		field := string(it.Key())
		v := it.Value()
		if IsHashed(v) {
			if slices.ContainsFunc(parts, func(p KeyPart) bool { return p.Hashed }) {
				return nil, mongoerr.New(31303, "A maximum of one index field is allowed to be hashed but found 2 for 'key' %s", bsonraw.FormatDocument(pattern))
			}
			if err := checkIndexField(field); err != nil {
				return nil, err
			}
			parts = append(parts, KeyPart{Field: field, Path: strings.Split(field, "."), Hashed: true})
			continue
		}
		if v.Type == bsoncore.TypeString {
			return nil, mongoerr.Lacking("the index type %q", string(bsonraw.Text(v)))
		}
		n := bsonraw.Float64(v)
		if !bsonraw.IsNumber(v) || n == 0 {
			return nil, mongoerr.New(mongoerr.CannotCreateIndex, "Values in v:2 index key pattern cannot be of type %s. Only numbers > 0, numbers < 0, and strings are allowed.", bsonraw.TypeName(v.Type))
		}
		if err := checkIndexField(field); err != nil {
			return nil, err
		}
		parts = append(parts, KeyPart{Field: field, Path: strings.Split(field, "."), Desc: n < 0})
	}
	if len(parts) == 0 {
		return nil, mongoerr.New(mongoerr.CannotCreateIndex, "Index keys cannot be an empty object")
	}
	return parts, nil
}

func checkIndexField(field string) error {
	for _, p := range strings.Split(field, ".") {
		switch {
		case p == "":
			return mongoerr.New(mongoerr.CannotCreateIndex, "Index keys cannot be an empty field.")
		case strings.HasPrefix(p, "$"):
			return mongoerr.Lacking("the index field %q", field)
		case p[0] >= '0' && p[0] <= '9':
			return mongoerr.Lacking("an index on an array position: %q", field)
		}
	}
	return nil
}

// entries returns a document's keys in this index, sorted and without duplicates.
func (x *Index) entries(doc []byte, rid uint64) ([]string, error) {
	if x.partial != nil {
		if ok, err := x.partial.Match(doc); err != nil || !ok {
			return nil, err
		}
	}
	if len(x.Parts) == 1 && len(x.Parts[0].Path) == 1 && !x.Parts[0].Hashed {
		if v, _ := bsonraw.Lookup(doc, x.Parts[0].Field); v.Type != bsoncore.TypeArray {
			return x.plain(v, rid)
		}
	}
	rows, multi, err := extract(doc, x.Parts)
	if err != nil {
		return nil, err
	}
	if multi && x.hashed() {
		return nil, mongoerr.New(16766, "hashed indexes do not currently support array values")
	}
	if multi {
		x.Multikey = true
	}
	out := make([]string, 0, len(rows))
	for _, row := range rows {
		if x.Sparse && !slices.ContainsFunc(row, func(v bsonraw.Value) bool { return !bsonraw.IsMissing(v) }) {
			continue
		}
		key, err := x.encode(row)
		if err != nil {
			return nil, err
		}
		out = append(out, string(x.finish(key, rid)))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func (x *Index) plain(v bsonraw.Value, rid uint64) ([]string, error) {
	if x.Sparse && bsonraw.IsMissing(v) {
		return nil, nil
	}
	var scratch [96]byte
	key, err := bsonraw.AppendKey(scratch[:0], x.Collation.Value(v))
	if err != nil {
		return nil, mongoerr.Lacking("this key of index %s: %v", x.Name, err)
	}
	if x.Parts[0].Desc {
		bsonraw.Invert(key)
	}
	return []string{string(x.finish(key, rid))}, nil
}

func (x *Index) encode(row []bsonraw.Value) ([]byte, error) {
	key := make([]byte, 0, 64)
	for i, v := range row {
		start := len(key)
		var err error
		if key, err = bsonraw.AppendKey(key, x.Collation.Value(v)); err != nil {
			return nil, mongoerr.Lacking("this key of index %s: %v", x.Name, err)
		}
		switch {
		case x.Parts[i].Desc:
			bsonraw.Invert(key[start:])
		case x.Parts[i].Hashed:
			sum := fnv.New64a()
			_, _ = sum.Write(key[start:])
			key = sum.Sum(key[:start])
		}
	}
	return key, nil
}

func (x *Index) finish(key []byte, rid uint64) []byte {
	if x.Unique {
		return key
	}
	return binary.BigEndian.AppendUint64(key, rid)
}

// duplicate returns the error for an entry of doc that another document already has.
func (x *Index) duplicate(ns Namespace, doc []byte, entry string) error {
	rows, _, err := extract(doc, x.Parts)
	if err != nil {
		return err
	}
	for _, row := range rows {
		key, err := x.encode(row)
		if err != nil {
			return err
		}
		if string(key) != entry {
			continue
		}
		value := bsonraw.NewBuilder(64)
		for i, v := range row {
			if bsonraw.IsMissing(v) {
				v = bsonraw.Null
			}
			if x.Collation != nil && v.Type == bsoncore.TypeString {
				v = bsonraw.StringValue(fmt.Sprintf("CollationKey(0x%x)", bsonraw.Text(x.Collation.Value(v))))
			}
			value.Value(x.Parts[i].Field, v)
		}
		by := ""
		if x.Collation != nil {
			by = " collation: " + bsonraw.FormatDocument(x.Collation.Doc)
		}
		e := mongoerr.New(mongoerr.DuplicateKey, "E11000 duplicate key error collection: %s index: %s%s dup key: %s",
			ns, x.Name, by, bsonraw.FormatDocument(value.Bytes()))
		e.KeyPattern, e.KeyValue = x.Pattern, value.Bytes()
		return e
	}
	return mongoerr.New(mongoerr.InternalError, "duplicate key in index %s without its value", x.Name)
}

// Spec returns the index as listIndexes shows it.
func (x *Index) Spec(ns Namespace) []byte {
	b := bsonraw.NewBuilder(96).Int32("v", 2)
	if x.Unique && x.Name != "_id_" {
		b.Bool("unique", true)
	}
	b.Document("key", x.Pattern).String("name", x.Name).String("ns", ns.String())
	if x.Sparse {
		b.Bool("sparse", true)
	}
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
	return b.Bytes()
}
