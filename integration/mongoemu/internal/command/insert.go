package command

import (
	"context"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// insertChunk is how many documents are inserted under one lock.
const insertChunk = 256

func insert(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	docs, err := r.list("documents")
	if err != nil {
		return err
	}
	w, err := newBatch(r, len(docs))
	if err != nil {
		return err
	}
	if err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		if key == "documents" {
			return true, nil
		}
		return w.option(r, key, v)
	}); err != nil {
		return err
	}
	for start := 0; start < len(docs); start += insertChunk {
		end := min(start+insertChunk, len(docs))
		stop, err := e.insertDocs(ctx, r, w, ns, docs, start, end)
		if err != nil {
			return err
		}
		if stop {
			break
		}
	}
	b.Int32("n", w.n)
	w.errors(b)
	w.retries(b)
	e.written(r, b)
	return nil
}

// insertDocs inserts some of the documents under one lock; interrupted to wait
// for a transaction, it goes on where it was.
func (e *Engine) insertDocs(ctx context.Context, r *Request, w *batch, ns store.Namespace, docs [][]byte, start, end int) (stop bool, err error) {
	ready := make([][]byte, end-start)
	for i := range ready {
		ready[i] = e.Store.Prepared(docs[start+i])
	}
	i := start
	err = e.Store.Do(ctx, r.tx, func(sw *store.Writer) error {
		for ; i < end; i++ {
			if r.retryable {
				if _, done := r.session.Done(w.id(i)); done {
					w.n++
					w.retried = append(w.retried, w.id(i))
					continue
				}
			}
			if err := sw.Insert(ns, ready[i-start]); err != nil {
				if store.Blocked(err) {
					return err
				}
				var fatal error
				if stop, fatal = w.note(r, i, err); fatal != nil || stop {
					return fatal
				}
				continue
			}
			w.n++
			if r.retryable {
				r.session.Remember(w.id(i), session.Result{N: 1})
			}
		}
		return nil
	})
	if stop && err == nil {
		r.failed()
	}
	return stop, err
}
