package command

import (
	"context"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// insertChunk is the number of documents to insert while the lock is held once.
const insertChunk = 256

func insert(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	w, err := parseBatch(r, "documents")
	if err != nil {
		return err
	}
	for start := 0; start < len(w.statements); start += insertChunk {
		stop, err := e.insertDocs(ctx, r, w, start, min(start+insertChunk, len(w.statements)))
		if err != nil {
			return err
		}
		if stop {
			break
		}
	}
	b.Int32("n", w.n)
	w.reply(e, r, b)
	return nil
}

// insertDocs inserts the documents from start to before end. If it must wait for a
// transaction, it continues with the same document afterwards.
func (e *Engine) insertDocs(ctx context.Context, r *Request, w *batch, start, end int) (stop bool, err error) {
	ready := make([][]byte, end-start)
	bad := map[int]error{}
	for i := range ready {
		if ready[i], err = e.Store.Prepared(w.statements[start+i]); err != nil {
			bad[start+i] = err
		}
	}
	i := start
	err = e.Store.Do(ctx, r.tx, func(sw *store.Writer) error {
		if w.bypass {
			sw.BypassValidation()
		}
		for ; i < end; i++ {
			result, err := w.once(r, i, func(i int) (session.Result, error) {
				if bad[i] != nil {
					return session.Result{}, bad[i]
				}
				return session.Result{N: 1}, sw.Insert(w.ns, ready[i-start])
			})
			switch {
			case store.Blocked(err):
				return err
			case err != nil:
				var fatal error
				if stop, fatal = w.note(r, i, err); fatal != nil || stop {
					return fatal
				}
			default:
				w.n += result.N
			}
		}
		return nil
	})
	if stop && err == nil {
		r.failed()
	}
	return stop, err
}
