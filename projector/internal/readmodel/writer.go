package readmodel

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// groupTimeout bounds a group commit, and a group load. What is unfinished then is
// Unknown, and its caller looks again.
const groupTimeout = 20 * time.Second

// WriterOptions tune a [Writer]. The zero value is good.
type WriterOptions struct {
	// Window is how long an operation waits for company while others are about; a
	// lone one does not wait. Default 2 ms.
	Window time.Duration
	// MaxOperations and MaxBytes bound one group commit of a collection; defaults
	// 1,000 and 8 MiB. A single larger operation goes alone.
	MaxOperations, MaxBytes int
	// Parallel bounds the group commits of one collection under way; default 2.
	Parallel int
	// Queue bounds the operations that wait; beyond it Apply blocks. Default 10,000.
	Queue int
	// Registerer may be nil: no metrics then.
	Registerer prometheus.Registerer
}

// Writer writes operations of many sessions in guarded bulk writes. Run must be
// running for Apply to return.
type Writer struct {
	db      database
	metrics *metrics
	groups  gatherer[Operation, Result]
	// locked are the watermarks that open transactions hold.
	locked locked
}

// NewWriter makes a writer into that database, whose concerns it sets itself.
func NewWriter(db *mongo.Database, o WriterOptions) *Writer { return newWriter(onMongo(db), o) }

func newWriter(db database, o WriterOptions) *Writer {
	w := &Writer{db: db, metrics: newMetrics(o.Registerer)}
	w.groups = gatherer[Operation, Result]{
		lane:     func(o Operation) string { return o.Collection },
		key:      func(o Operation) string { return o.AggregateID },
		size:     func(o Operation) int { return len(o.Document) + len(o.Update) + 2*len(o.AggregateID) + 128 },
		carryOut: w.commit,
		window:   cmp.Or(o.Window, 2*time.Millisecond),
		maxItems: cmp.Or(o.MaxOperations, 1000),
		maxBytes: cmp.Or(o.MaxBytes, 8<<20),
		maxBusy:  cmp.Or(o.Parallel, 2),

		maxWaiting: cmp.Or(o.Queue, 10_000),
	}
	w.groups.init()
	return w
}

// Run commits until ctx ends, and returns its cause when all it started has ended.
// It may run once.
func (w *Writer) Run(ctx context.Context) error { return w.groups.run(ctx) }

// Apply carries out operations and answers for each in the order given. An error
// is the context's cause, or [ErrClosed]: the operations may or may not have
// happened then. Their bytes must stay untouched for good.
func (w *Writer) Apply(ctx context.Context, operations []Operation) ([]Result, error) {
	return w.groups.do(ctx, operations)
}

// commit is a group commit: operations on distinct documents of one collection.
// The kinds are independent of each other and go at once.
func (w *Writer) commit(ctx context.Context, collection string, operations []Operation) []Result {
	ctx, cancel := mongox.Patient(ctx, groupTimeout)
	defer cancel()
	start := time.Now()
	results := make([]Result, len(operations))
	kinds := make(map[commitFunc][]int)
	for i := range operations {
		if rejected, ok := tooLarge(&operations[i]); ok {
			results[i] = rejected
			continue
		}
		do := way(&operations[i])
		kinds[do] = append(kinds[do], i)
	}
	var work sync.WaitGroup
	for do, indexes := range kinds {
		work.Go(func() {
			part := make([]*Operation, len(indexes))
			for i, at := range indexes {
				part[i] = &operations[at]
			}
			for i, result := range w.commitPart(ctx, do, collection, part) {
				results[indexes[i]] = result
			}
		})
	}
	work.Wait()
	for i := range results {
		results[i].Err = mongox.Explain(ctx, results[i].Err)
	}
	w.metrics.writeSize.Observe(float64(len(operations)))
	w.metrics.writeDuration.Observe(time.Since(start).Seconds())
	for _, result := range results {
		if result.Status == Stale {
			w.metrics.stale.Inc()
		}
	}
	return results
}

// commitFunc is a way to commit operations of a kind.
type commitFunc uint8

const (
	byUpdate commitFunc = iota
	byInsert
	byFencedInsert
	bySideUpdate
	byRemoval
)

func way(o *Operation) commitFunc {
	switch {
	case o.Kind == Update:
		return byUpdate
	case o.Kind == Create && o.Deletes:
		return byFencedInsert
	case o.Kind == Create:
		return byInsert
	case o.Kind == MoveWatermark:
		return bySideUpdate
	}
	return byRemoval
}

// commitPart commits operations of one kind. Where the server refuses the command as a
// whole for what one of them holds, the group is halved until that one is alone.
func (w *Writer) commitPart(ctx context.Context, do commitFunc, collection string, operations []*Operation) []Result {
	results := w.commitGroup(ctx, do, collection, operations)
	refused := slices.ContainsFunc(results, func(r Result) bool { return r.Status == Unknown && rejectsCommand(r.Err) })
	if !refused || len(operations) == 1 || ctx.Err() != nil {
		return results
	}
	half := len(operations) / 2
	return append(
		w.commitPart(ctx, do, collection, operations[:half]),
		w.commitPart(ctx, do, collection, operations[half:])...)
}

func (w *Writer) commitGroup(ctx context.Context, do commitFunc, collection string, operations []*Operation) []Result {
	switch do {
	case byUpdate:
		return w.update(ctx, collection, operations)
	case byInsert:
		return w.insert(ctx, collection, operations)
	case byFencedInsert:
		return w.fencedInsert(ctx, collection, operations)
	case bySideUpdate:
		return w.moveWatermarks(ctx, operations)
	}
	return w.remove(ctx, collection, operations)
}

// applied is the result of whatever nothing speaks against.
func applied(int) Result { return Result{Status: Applied} }

// update updates documents that have exactly the expected watermark.
func (w *Writer) update(ctx context.Context, collection string, operations []*Operation) []Result {
	now := time.Now()
	updates := make([]update, len(operations))
	for i, o := range operations {
		updates[i] = guardedUpdate(o, now)
	}
	matched, err := w.db.update(ctx, collection, updates)
	return w.resolve(ctx, collection, operations, matched, err, func(o *Operation, watermark int64, exists bool) Status {
		// Whoever brought the document to just this watermark, folded the same events.
		if exists && watermark == o.To {
			return Applied
		}
		return Stale
	})
}

// resolve gives the results of guarded operations. The server only tells how many
// documents it found: where that is less than all, the documents' watermarks tell
// which operations took effect.
func (w *Writer) resolve(ctx context.Context, collection string, operations []*Operation, matched int, err error,
	verdict func(o *Operation, watermark int64, exists bool) Status,
) []Result {
	expected := 0
	results := judgeAll(err, len(operations), func(int) Result {
		expected++
		return Result{Status: Applied}
	})
	if expected == 0 || matched == expected {
		return results
	}
	watermarks, err := w.watermarks(ctx, collection, operations)
	for i, o := range operations {
		switch {
		case results[i].Status != Applied:
		case err != nil:
			results[i] = Result{Status: Unknown, Err: err}
		default:
			watermark, exists := watermarks[o.AggregateID]
			results[i].Status = verdict(o, watermark, exists)
		}
	}
	return results
}

// watermarks reads the watermarks of documents, those that exist.
func (w *Writer) watermarks(ctx context.Context, collection string, operations []*Operation) (map[string]int64, error) {
	ids := make([]string, len(operations))
	for i, o := range operations {
		ids[i] = o.AggregateID
	}
	found, err := w.db.find(ctx, collection, byID(ids), watermarkOnly, len(ids))
	if err != nil {
		return nil, err
	}
	watermarks := make(map[string]int64, len(found))
	for _, document := range found {
		// A document without a watermark is somebody else's; the loader says so.
		watermark, _ := watermarkOf(document)
		if id, ok := document.Lookup(fieldID).StringValueOK(); ok {
			watermarks[id] = watermark
		}
	}
	return watermarks, nil
}

// insert creates documents for a projection that never deletes. That the insert
// finds no document is guard enough: without deletes, an aggregate whose document
// is not there has not had one.
func (w *Writer) insert(ctx context.Context, collection string, operations []*Operation) []Result {
	now := time.Now()
	documents := make([]bson.Raw, len(operations))
	for i, o := range operations {
		documents[i] = newDocument(o, now)
	}
	return judgeAll(w.db.insert(ctx, collection, documents), len(operations), applied)
}

// remove deletes documents. The watermark comes first: should the delete not
// follow, the document still has its own, and the event is taken again.
func (w *Writer) remove(ctx context.Context, collection string, operations []*Operation) []Result {
	results := w.moveWatermarks(ctx, operations)
	for _, kind := range []Kind{Delete, Erase} {
		var part []*Operation
		var at []int
		for i, o := range operations {
			if o.Kind == kind && results[i].Status == Applied {
				part, at = append(part, o), append(at, i)
			}
		}
		if len(part) == 0 {
			continue
		}
		filters := make([]bson.Raw, len(part))
		for i, o := range part {
			if kind == Delete {
				filters[i] = guard(o.AggregateID, o.From)
			} else {
				filters[i] = outdated(o.AggregateID, o.To)
			}
		}
		deleted, err := w.db.remove(ctx, collection, filters)
		if kind == Erase && err == nil {
			// There was most likely nothing to erase.
			continue
		}
		for i, result := range w.resolve(ctx, collection, part, deleted, err, func(_ *Operation, _ int64, exists bool) Status {
			if exists {
				return Stale
			}
			return Applied
		}) {
			results[at[i]] = result
		}
	}
	return results
}
