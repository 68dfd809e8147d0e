package aggregate

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/projection"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// direct implements flush for stages that hold no documents back.
type direct struct{}

func (direct) flush() ([][]byte, error) { return nil, nil }

type transforming struct {
	direct
	t    projection.Transform
	vars expr.Vars
}

func (s *transforming) push(docs [][]byte) ([][]byte, bool, error) {
	out := make([][]byte, len(docs))
	for i, d := range docs {
		var err error
		if out[i], err = s.t.Apply(d, s.vars); err != nil {
			return nil, false, err
		}
	}
	return out, false, nil
}

type matching struct {
	direct
	m *query.Matcher
}

func (s *matching) push(docs [][]byte) ([][]byte, bool, error) {
	var out [][]byte
	for _, d := range docs {
		ok, err := s.m.Match(d)
		if err != nil {
			return nil, false, err
		}
		if ok {
			out = append(out, d)
		}
	}
	return out, false, nil
}

type limiting struct {
	direct
	left int64
}

func (s *limiting) push(docs [][]byte) ([][]byte, bool, error) {
	n := min(int64(len(docs)), s.left)
	s.left -= n
	return docs[:n], s.left == 0, nil
}

type skipping struct {
	direct
	left int64
}

func (s *skipping) push(docs [][]byte) ([][]byte, bool, error) {
	n := min(int64(len(docs)), s.left)
	s.left -= n
	return docs[n:], false, nil
}

type sorting struct {
	order []store.KeyPart
	by    *collation.Collation
	rows  []sortedRow
}

type sortedRow struct {
	key string
	doc []byte
}

func (s *sorting) push(docs [][]byte) ([][]byte, bool, error) {
	for _, d := range docs {
		key, err := store.SortKey(nil, d, s.order, s.by)
		if err != nil {
			return nil, false, err
		}
		s.rows = append(s.rows, sortedRow{string(key), d})
	}
	return nil, false, nil
}

func (s *sorting) flush() ([][]byte, error) {
	slices.SortStableFunc(s.rows, func(a, b sortedRow) int { return strings.Compare(a.key, b.key) })
	out := make([][]byte, len(s.rows))
	for i, r := range s.rows {
		out[i] = r.doc
	}
	s.rows = nil
	return out, nil
}

type counting struct {
	name string
	n    int64
}

func compileCount(spec bsonraw.Value) (stage, error) {
	if spec.Type != bsoncore.TypeString {
		return nil, mongoerr.New(40156, "the count field must be a non-empty string")
	}
	name := string(bsonraw.Text(spec))
	if name == "" || strings.HasPrefix(name, "$") || strings.ContainsAny(name, ".\x00") {
		return nil, mongoerr.New(40158, "the count field must be a non-empty string that is no field path: %q", name)
	}
	return &counting{name: name}, nil
}

func (s *counting) push(docs [][]byte) ([][]byte, bool, error) {
	s.n += int64(len(docs))
	return nil, false, nil
}

func (s *counting) flush() ([][]byte, error) {
	if s.n == 0 {
		return nil, nil
	}
	b := bsonraw.NewBuilder(32)
	if s.n == int64(int32(s.n)) {
		b.Int32(s.name, int32(s.n))
	} else {
		b.Int64(s.name, s.n)
	}
	return [][]byte{b.Bytes()}, nil
}

type unwinding struct {
	direct
	path  []string
	keep  bool
	index string
}

func compileUnwind(spec bsonraw.Value) (stage, error) {
	s := &unwinding{}
	path := spec
	if spec.Type == bsoncore.TypeEmbeddedDocument {
		path = bsonraw.Missing
		for it := bsonraw.NewIter(spec.Data); it.Next(); {
			switch key := string(it.Key()); key {
			case "path":
				path = it.Value()
			case "preserveNullAndEmptyArrays":
				s.keep = bsonraw.Truthy(it.Value())
			case "includeArrayIndex":
				if it.Value().Type != bsoncore.TypeString {
					return nil, mongoerr.New(28810, "expected a non-empty string for the includeArrayIndex option to $unwind stage")
				}
				s.index = string(bsonraw.Text(it.Value()))
				if s.index == "" || strings.HasPrefix(s.index, "$") || strings.ContainsRune(s.index, 0) {
					return nil, mongoerr.New(28822, "includeArrayIndex option to $unwind stage should not be prefixed with a '$' or be empty: %q", s.index)
				}
			default:
				return nil, mongoerr.New(28811, "unrecognized option to $unwind stage: %s", key)
			}
		}
	}
	if path.Type != bsoncore.TypeString || !strings.HasPrefix(string(bsonraw.Text(path)), "$") {
		return nil, mongoerr.New(28818, "path option to $unwind stage should be prefixed with a '$': %s", bsonraw.Format(path))
	}
	s.path = strings.Split(string(bsonraw.Text(path))[1:], ".")
	return s, nil
}

func (s *unwinding) push(docs [][]byte) ([][]byte, bool, error) {
	var out [][]byte
	for _, d := range docs {
		v, _ := bsonraw.LookupPath(d, s.path...)
		switch {
		case v.Type == bsoncore.TypeArray && !bsonraw.Empty(v.Data):
			i := int64(0)
			for it := bsonraw.NewIter(v.Data); it.Next(); i++ {
				out = append(out, s.indexed(with(d, s.path, it.Value()), bsonraw.Int64Value(i)))
			}
		case v.Type == bsoncore.TypeArray || bsonraw.IsNullish(v):
			if s.keep {
				e := bsonraw.Missing
				if v.Type == bsoncore.TypeNull {
					e = bsonraw.Null
				}
				out = append(out, s.indexed(with(d, s.path, e), bsonraw.Null))
			}
		default:
			out = append(out, s.indexed(d, bsonraw.Null))
		}
	}
	return out, false, nil
}

func (s *unwinding) indexed(doc []byte, i bsonraw.Value) []byte {
	if s.index == "" {
		return doc
	}
	return bsonraw.NewBuilder(len(doc)+32).Elements(with(doc, []string{s.index}, bsonraw.Missing)).Value(s.index, i).Bytes()
}

// with returns doc with the value at path replaced by v. An absent v removes the field.
func with(doc []byte, path []string, v bsonraw.Value) []byte {
	b := bsonraw.NewBuilder(len(doc))
	for it := bsonraw.NewIter(doc); it.Next(); {
		switch {
		case string(it.Key()) != path[0]:
			b.Raw(it.Key(), it.Value())
		case len(path) > 1 && it.Value().Type == bsoncore.TypeEmbeddedDocument:
			b.Document(path[0], with(it.Value().Data, path[1:], v))
		default:
			b.Value(path[0], v)
		}
	}
	return b.Bytes()
}
