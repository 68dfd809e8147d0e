package readmodel

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// lockWait is how long a bulk of watermarks may take before it is assumed that a
	// transaction holds one of them. Outside of a transaction, the server waits for the end
	// of such a transaction.
	lockWait = time.Second
	// lockMemory is how long a watermark that was found locked is written separately. The
	// server ends a transaction after transactionLifetimeLimitSeconds, 60 s by default, and
	// another projector ends it earlier if it may.
	lockMemory = time.Minute
)

// moveWatermarks raises the watermarks of units without a document. They only rise. A side
// watermark only says that there is no document as of that event, and every writer that
// folds the same events gets the same.
//
// A projector that was killed while it created documents leaves a transaction that holds
// their watermarks until the server ends it. A bulk would wait for it as a whole. So the
// watermarks of a slow bulk are written in transactions, in which the server reports a
// conflict instead of waiting. Then only the locked ones fail.
func (w *Writer) moveWatermarks(ctx context.Context, operations []*model.Write) []model.Written {
	now := time.Now()
	results := make([]model.Written, len(operations))
	var together, apart []update
	var togetherAt, apartAt []int
	for i, o := range operations {
		if w.locked.has(sideKeyOf(&o.Unit), now) {
			apart, apartAt = append(apart, sideUpdate(o, now)), append(apartAt, i)
		} else {
			together, togetherAt = append(together, sideUpdate(o, now)), append(togetherAt, i)
		}
	}
	for i, result := range w.moveTogether(ctx, together) {
		results[togetherAt[i]] = result
	}
	for i, result := range w.moveApart(ctx, apart) {
		results[apartAt[i]] = result
	}
	for i, result := range results {
		if result.Status == model.Unknown && mongox.HasCode(result.Err, mongox.CodeWriteConflict) {
			w.locked.add(sideKeyOf(&operations[i].Unit), time.Now())
		}
	}
	return results
}

// moveTogether writes watermarks in one bulk, and in transactions if that takes too long.
func (w *Writer) moveTogether(ctx context.Context, updates []update) []model.Written {
	if len(updates) == 0 {
		return nil
	}
	attempt, cancel := mongox.Timeout(ctx, lockWait)
	_, err := w.db.update(attempt, watermarksCollection, updates)
	late := err != nil && errors.Is(context.Cause(attempt), mongox.ErrNoAnswer)
	cancel()
	if late && ctx.Err() == nil {
		return w.moveApart(ctx, updates)
	}
	results := judgeAll(err, len(updates), applied)
	for i := range results {
		// Two clients created the same watermark. It exists for the next attempt.
		if results[i].Status == model.Stale {
			results[i] = model.Written{Status: model.Unknown, Err: err}
		}
	}
	return results
}

// moveApart writes watermarks in a transaction. If that conflicts with another one, it
// halves them until the locked ones are alone.
func (w *Writer) moveApart(ctx context.Context, updates []update) []model.Written {
	if len(updates) == 0 {
		return nil
	}
	err := w.db.transaction(ctx, func(ctx context.Context) error {
		_, err := w.db.update(ctx, watermarksCollection, updates)
		return err
	})
	if err == nil {
		return judgeAll(nil, len(updates), applied)
	}
	if len(updates) == 1 || !aborted(err) || ctx.Err() != nil {
		return unknown(err, len(updates))
	}
	half := len(updates) / 2
	return append(w.moveApart(ctx, updates[:half]), w.moveApart(ctx, updates[half:])...)
}

// locked remembers watermarks that open transactions hold. The zero value is ready.
type locked struct {
	mu    sync.Mutex
	since map[sideKey]time.Time
}

func (l *locked) has(key sideKey, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, ok := l.since[key]
	if ok && now.Sub(since) >= lockMemory {
		delete(l.since, key)
		ok = false
	}
	return ok
}

// add remembers a key, and forgets those that are older than lockMemory.
func (l *locked) add(key sideKey, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == nil {
		l.since = make(map[sideKey]time.Time)
	}
	for k, since := range l.since {
		if now.Sub(since) >= lockMemory {
			delete(l.since, k)
		}
	}
	l.since[key] = now
}
