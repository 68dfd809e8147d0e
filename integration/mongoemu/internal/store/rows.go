package store

import (
	"context"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// Query is a query on one collection.
type Query struct {
	NS      Namespace
	Filter  *query.Matcher
	Order   []KeyPart
	Natural int
	Hint    Hint
	Skip    int64
	// Limit is the maximum number of documents; 0 for all.
	Limit int64
}

// yieldEvery is the number of documents to examine before the lock is released for a
// moment.
const yieldEvery = 4096

// Rows returns the results of a query in batches. Only one goroutine at a time may use
// it.
type Rows struct {
	store   *Store
	tx      *Tx
	query   Query
	uuid    [16]byte
	scan    scan
	sorted  []sorted // remaining results, if they had to be sorted
	buffer  bool
	skip    int64
	left    int64
	done    bool
	pending *Record // read but not returned, because the batch was full
}

// Open plans a query. If the plan does not return the requested order, Open reads and
// sorts all results.
func (s *Store) Open(ctx context.Context, tx *Tx, q Query) (*Rows, error) {
	r := &Rows{store: s, tx: tx, query: q, skip: q.Skip, left: q.Limit}
	var missing bool
	err := s.View(tx, func(v *Viewer) error {
		c := v.Collection(q.NS)
		if c == nil {
			missing = true
			return nil
		}
		r.uuid = c.UUID
		plan, err := c.plan(q.Filter, q.Order, q.Natural, q.Hint)
		r.scan.plan = plan
		return err
	})
	if err != nil {
		return nil, err
	}
	r.done = missing
	if !missing && !r.scan.plan.Sorted {
		return r, r.sortAll(ctx)
	}
	return r, nil
}

func (r *Rows) sortAll(ctx context.Context) error {
	s := sorter{parts: r.query.Order, by: r.query.Filter.Collation()}
	if r.query.Limit > 0 && r.query.Limit+r.query.Skip < 1<<30 {
		s.keep = int(r.query.Limit + r.query.Skip)
	}
	for {
		more, err := r.scanSome(ctx, func(rec *Record) (bool, error) { return true, s.add(rec) })
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	s.order()
	r.sorted, r.buffer = s.rows, true
	return nil
}

// scanSome visits matching records until visit returns false, the scan ends, or
// yieldEvery records were examined. more reports that the scan has not ended.
func (r *Rows) scanSome(ctx context.Context, visit func(*Record) (bool, error)) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, Interrupted(ctx)
	}
	err = r.store.View(r.tx, func(v *Viewer) error {
		c := v.Collection(r.query.NS)
		if c == nil || c.UUID != r.uuid {
			return errCollectionGone(r.query.NS)
		}
		var failed error
		examined := 0
		r.scan.each(c, func(rec *Record) bool {
			examined++
			ok, err := r.query.Filter.Match(rec.Doc)
			if err != nil {
				failed = err
				return false
			}
			if ok {
				if ok, failed = visit(rec); !ok || failed != nil {
					return false
				}
			}
			return examined < yieldEvery
		})
		return failed
	})
	return err == nil && !r.scan.done, err
}

// Next returns up to maxDocs documents (0: no limit) with up to maxBytes in total, but at
// least one document if there is any. The caller must not modify them. done reports that
// there are no more documents.
func (r *Rows) Next(ctx context.Context, maxDocs, maxBytes int) (docs [][]byte, done bool, err error) {
	size := 0
	take := func(rec *Record) bool {
		if r.skip > 0 {
			r.skip--
			return true
		}
		if len(docs) > 0 && size+len(rec.Doc) > maxBytes {
			r.pending = rec
			return false
		}
		docs = append(docs, rec.Doc)
		size += len(rec.Doc)
		if r.left > 0 {
			if r.left--; r.left == 0 {
				r.done = true
				return false
			}
		}
		return maxDocs == 0 || len(docs) < maxDocs
	}
	if r.pending != nil && !r.done {
		rec := r.pending
		r.pending = nil
		if !take(rec) {
			return docs, r.done, nil
		}
	}
	if r.buffer {
		r.fromSorted(take)
		return docs, r.done, nil
	}
	for !r.done {
		stopped := false
		more, err := r.scanSome(ctx, func(rec *Record) (bool, error) {
			stopped = !take(rec)
			return !stopped, nil
		})
		if err != nil {
			return nil, false, err
		}
		if stopped {
			break
		}
		if !more {
			r.done = true
		}
	}
	return docs, r.done, nil
}

func (r *Rows) fromSorted(take func(*Record) bool) {
	for len(r.sorted) > 0 {
		rec := r.sorted[0].rec
		r.sorted = r.sorted[1:]
		if !take(rec) {
			break
		}
	}
	if len(r.sorted) == 0 && r.pending == nil {
		r.done = true
	}
}

// Plan returns the plan of the query, for explain.
func (r *Rows) Plan() Plan { return r.scan.plan }

// All returns all remaining documents.
func (r *Rows) All(ctx context.Context) ([][]byte, error) {
	var all [][]byte
	for {
		docs, done, err := r.Next(ctx, 0, 1<<40)
		if err != nil {
			return nil, err
		}
		all = append(all, docs...)
		if done {
			return all, nil
		}
	}
}
