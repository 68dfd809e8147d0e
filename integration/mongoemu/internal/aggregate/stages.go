package aggregate

import (
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
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
