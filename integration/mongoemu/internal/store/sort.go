package store

import (
	"bytes"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// ParseSort parses a sort specification. For {$natural: ±1} it returns natural 1 or -1
// and no parts.
func ParseSort(spec []byte) (parts []KeyPart, natural int, err error) {
	for it := bsonraw.NewIter(spec); it.Next(); {
		field, v := string(it.Key()), it.Value()
		if v.Type == bsoncore.TypeEmbeddedDocument {
			return nil, 0, mongoerr.Lacking("$meta in a sort")
		}
		n, ok := bsonraw.Int64(v)
		if !ok || n != 1 && n != -1 {
			return nil, 0, mongoerr.New(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)")
		}
		if field == "$natural" {
			natural = int(n)
			continue
		}
		if field == "" || strings.HasPrefix(field, "$") {
			return nil, 0, mongoerr.New(mongoerr.BadValue, "FieldPath field names may not start with '$' or be empty: %q", field)
		}
		parts = append(parts, KeyPart{Field: field, Path: strings.Split(field, "."), Desc: n < 0})
	}
	if natural != 0 && len(parts) > 0 {
		return nil, 0, mongoerr.New(mongoerr.BadValue, "$natural sort cannot be set to a value other than -1 or 1.")
	}
	return parts, natural, nil
}

// SortKey appends a document's sort key to dst. An array sorts by its least element
// ascending, and by its greatest element descending. by compares strings.
func SortKey(dst, doc []byte, parts []KeyPart, by *collation.Collation) ([]byte, error) {
	for _, p := range parts {
		var best []byte
		var failed error
		query.Path(p.Path).Walk(doc, true, func(v bsonraw.Value) bool {
			if v.Type == bsoncore.TypeArray && best != nil {
				return false // skip the array itself, which comes after its elements
			}
			if v.Type == bsoncore.TypeArray && bsonraw.Empty(v.Data) {
				v = undefined
			}
			key, err := bsonraw.AppendKey(nil, by.Value(v))
			if err != nil {
				failed = mongoerr.Lacking("this sort key: %v", err)
				return true
			}
			if p.Desc {
				bsonraw.Invert(key)
			}
			if best == nil || bytes.Compare(key, best) < 0 {
				best = key
			}
			return false
		})
		if failed != nil {
			return nil, failed
		}
		if best == nil {
			best, _ = bsonraw.AppendKey(nil, bsonraw.Missing)
			if p.Desc {
				bsonraw.Invert(best)
			}
		}
		dst = append(dst, best...)
	}
	return dst, nil
}

// sorter collects documents and returns the first keep of them in order.
type sorter struct {
	parts []KeyPart
	keep  int // 0 keeps all
	by    *collation.Collation
	rows  []sorted
}

type sorted struct {
	key string
	rec *Record
}

func (s *sorter) add(r *Record) error {
	key, err := SortKey(nil, r.Doc, s.parts, s.by)
	if err != nil {
		return err
	}
	s.rows = append(s.rows, sorted{string(key), r})
	if s.keep > 0 && len(s.rows) > 2*s.keep+1024 {
		s.order()
	}
	return nil
}

// order sorts the collected documents stably and drops all but the first keep.
func (s *sorter) order() {
	slices.SortStableFunc(s.rows, func(a, b sorted) int { return strings.Compare(a.key, b.key) })
	if s.keep > 0 && len(s.rows) > s.keep {
		clear(s.rows[s.keep:])
		s.rows = s.rows[:s.keep]
	}
}
