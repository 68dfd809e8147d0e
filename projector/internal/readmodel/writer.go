package readmodel

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// groupTimeout bounds a group commit and a group load. Unfinished operations are then
// Unknown, and the caller loads again.
const groupTimeout = 20 * time.Second

// idleWorkers bounds the idle goroutines of a gatherer, and of the writer, that wait for
// the next group.
const idleWorkers = 16

// WriterOptions configure a [Writer]. The zero value is valid.
type WriterOptions struct {
	// Window is how long an operation waits for others of its group; a single caller does
	// not wait. Default 2 ms.
	Window time.Duration
	// Registerer may be nil: no metrics then.
	Registerer prometheus.Registerer
	Logger     zerolog.Logger
}

// Writer writes operations of many sessions in guarded bulk writes. Write returns only
// while Run is running.
type Writer struct {
	db      database
	metrics *metrics
	logger  zerolog.Logger
	groups  gatherer[model.Write, model.Written]
	// kinds run the parts of group commits.
	kinds *poll.Pool
	// turns are the collections of views in which a transaction runs.
	turns turns
	// changedBytes bounds the documents that a transaction changes, and timeout a group commit.
	changedBytes int
	timeout      time.Duration
	// nearLimit limits the lines about view documents near a limit.
	nearLimit obs.Repeats
	// took is how long group commits have taken.
	took *health.Recent
}

// groupsPerCollection bounds the running group commits of one collection.
const groupsPerCollection = 2

// SlowWrite is the time above which a group commit is slow.
const SlowWrite = time.Second

// Took says how long the group commits of the last minute have taken. Above counts those that were
// slower than [SlowWrite].
func (w *Writer) Took() health.Durations { return w.took.Durations() }

// NewWriter makes a writer for that database. It sets the concerns itself.
func NewWriter(db *mongo.Database, o WriterOptions) *Writer {
	return newWriter(onMongo(db), o)
}

func newWriter(db database, o WriterOptions) *Writer {
	w := &Writer{db: db, metrics: newMetrics(o.Registerer), logger: o.Logger, kinds: poll.NewPool(idleWorkers), changedBytes: changedBytes, timeout: groupTimeout, took: health.NewRecent(SlowWrite)}
	w.groups = gatherer[model.Write, model.Written]{
		lane:     func(o model.Write) string { return o.Collection },
		key:      func(o model.Write) string { return o.AggregateID },
		size:     func(o model.Write) int { return len(o.Document) + len(o.Update) + 2*len(o.AggregateID) + 128 },
		carryOut: w.commit,
		window:   cmp.Or(o.Window, 2*time.Millisecond),
		maxItems: 1000,
		maxBytes: 8 << 20, // A single larger operation goes alone.
		maxBusy:  groupsPerCollection,
	}
	w.groups.init()
	return w
}

// Run commits until ctx ends, and returns its cause when all its goroutines have ended. It may
// run once.
func (w *Writer) Run(ctx context.Context) error {
	defer func() {
		w.kinds.Stop()
		w.kinds.Wait()
	}()
	return w.groups.run(ctx)
}

// Write makes writes and gives a result for each, in the same order. The error is the
// context's cause, or [ErrClosed]: then the outcome of the writes is unknown. Their bytes
// must never change.
func (w *Writer) Write(ctx context.Context, writes []model.Write) ([]model.Written, error) {
	return w.groups.do(ctx, writes)
}

// commit makes a group commit: operations on distinct documents of one collection.
// Operations of different kinds are independent and run concurrently.
func (w *Writer) commit(ctx context.Context, collection string, operations []model.Write) []model.Written {
	ctx, cancel := mongox.Timeout(ctx, w.timeout)
	defer cancel()
	start := time.Now()
	results := make([]model.Written, len(operations))
	kinds := make(map[commitFunc][]int)
	for i := range operations {
		if rejected, ok := tooLarge(&operations[i]); ok {
			results[i] = rejected
			continue
		}
		do := commitFuncOf(&operations[i])
		kinds[do] = append(kinds[do], i)
	}
	var work sync.WaitGroup
	for do, indexes := range kinds {
		commit := func() {
			part := make([]*model.Write, len(indexes))
			for i, at := range indexes {
				part[i] = &operations[at]
			}
			for i, result := range w.commitPart(ctx, do, collection, part) {
				results[indexes[i]] = result
			}
		}
		if len(kinds) == 1 {
			commit()
			continue
		}
		work.Add(1)
		w.kinds.Do(func() {
			defer work.Done()
			commit()
		})
	}
	work.Wait()
	w.removeForeign(ctx, collection, operations, results)
	for i := range results {
		results[i].Err = mongox.Explain(ctx, results[i].Err)
	}
	w.metrics.writeSize.Observe(float64(len(operations)))
	took := time.Since(start)
	w.metrics.writeDuration.Observe(took.Seconds())
	w.took.Add(took)
	for _, result := range results {
		if result.Status == model.Stale {
			w.metrics.stale.Inc()
		}
	}
	return results
}

// commitFunc is the way to commit operations of one kind.
type commitFunc uint8

const (
	byUpdate commitFunc = iota
	byInsert
	byReplacement
	byFencedInsert
	bySideUpdate
	byRemoval
	byContribution
)

// commitFuncOf gives the way to commit an operation.
func commitFuncOf(o *model.Write) commitFunc {
	switch {
	case o.Parts:
		return byContribution
	case o.Kind == model.Update:
		return byUpdate
	case o.Kind == model.Create && o.Deletes:
		return byFencedInsert
	case o.Kind == model.Create && o.Foreign != nil:
		return byReplacement
	case o.Kind == model.Create:
		return byInsert
	case o.Kind == model.MoveWatermark:
		return bySideUpdate
	}
	return byRemoval
}

// commitPart commits operations of one kind. If the server refuses the whole command
// because of the content of one operation, the group is halved until that operation is
// alone.
func (w *Writer) commitPart(ctx context.Context, do commitFunc, collection string, operations []*model.Write) []model.Written {
	results := w.commitGroup(ctx, do, collection, operations)
	refused := slices.ContainsFunc(results, func(r model.Written) bool { return r.Status == model.Unknown && rejectsCommand(r.Err) })
	if !refused || len(operations) == 1 || ctx.Err() != nil {
		return results
	}
	half := len(operations) / 2
	return append(
		w.commitPart(ctx, do, collection, operations[:half]),
		w.commitPart(ctx, do, collection, operations[half:])...)
}

func (w *Writer) commitGroup(ctx context.Context, do commitFunc, collection string, operations []*model.Write) []model.Written {
	switch do {
	case byUpdate:
		return w.update(ctx, collection, operations, guardedUpdate)
	case byInsert:
		return w.insert(ctx, collection, operations)
	case byReplacement:
		return w.update(ctx, collection, operations, replacement)
	case byFencedInsert:
		return w.fencedInsert(ctx, collection, operations)
	case bySideUpdate:
		return w.moveWatermarks(ctx, operations)
	case byContribution:
		return w.contribute(ctx, collection, operations)
	}
	return w.remove(ctx, collection, operations)
}

// applied is the result of an operation without an error.
func applied(int) model.Written { return model.Written{Status: model.Applied} }

// update changes or replaces documents that have not changed since they were found.
func (w *Writer) update(ctx context.Context, collection string, operations []*model.Write,
	updateOf func(*model.Write, time.Time) update,
) []model.Written {
	now := time.Now()
	updates := make([]update, len(operations))
	for i, o := range operations {
		updates[i] = updateOf(o, now)
	}
	matched, err := w.db.update(ctx, collection, updates)
	results, all := w.resolve(ctx, collection, operations, matched, err, reached)
	for i, o := range operations {
		// If all were found, each of them certainly took effect here.
		if all && results[i].Status == model.Applied {
			results[i].UpdatedAt = updatedBy(o, now)
		}
	}
	return results
}

// reached gives the status of a write that matched nothing. If the document has the write's
// watermark, a writer that folded the same events has written it.
func reached(o *model.Write, found *found) model.Status {
	if found != nil && found.generation == o.Number() && found.watermark == o.To {
		return model.Applied
	}
	return model.Stale
}

// resolve gives the results of guarded operations. The server only reports how many
// documents it found. If that is less than all, the documents' watermarks show which
// operations took effect, here or by another writer. all reports whether it found all.
func (w *Writer) resolve(ctx context.Context, collection string, operations []*model.Write, matched int, err error,
	verdict func(o *model.Write, found *found) model.Status,
) (results []model.Written, all bool) {
	expected := 0
	results = judgeAll(err, len(operations), func(int) model.Written {
		expected++
		return model.Written{Status: model.Applied}
	})
	if expected == 0 || matched == expected {
		return results, true
	}
	documents, err := w.look(ctx, collection, operations)
	for i, o := range operations {
		switch {
		case results[i].Status != model.Applied:
		case err != nil:
			results[i] = model.Written{Status: model.Unknown, Err: err}
		default:
			results[i].Status = verdict(o, documents[o.AggregateID])
		}
	}
	return results, false
}

// found is what is known of a document.
type found struct{ watermark, generation int64 }

// look reads the watermarks of the operations' documents, by aggregate. Missing documents
// are not in the result.
func (w *Writer) look(ctx context.Context, collection string, operations []*model.Write) (map[string]*found, error) {
	ids := make([]string, len(operations))
	for i, o := range operations {
		ids[i] = o.AggregateID
	}
	read, err := w.db.find(ctx, collection, byID(ids), watermarkOnly, len(ids))
	if err != nil {
		return nil, err
	}
	documents := make(map[string]*found, len(read))
	for _, document := range read {
		// The loader reports a document that is not a read model.
		watermark, _ := foreignWatermark(document)
		generation, _ := generationOf(document)
		if id, ok := document.Lookup(fieldID).StringValueOK(); ok {
			documents[id] = &found{watermark, generation}
		}
	}
	return documents, nil
}

// insert creates documents for a projection that never deletes. The insert itself is the
// guard: without deletes, an aggregate without a document has never had one, unless it was erased.
// The watermark of an erased one, which the caller has loaded, lets no event pass.
func (w *Writer) insert(ctx context.Context, collection string, operations []*model.Write) []model.Written {
	now := time.Now()
	documents := make([]bson.Raw, len(operations))
	for i, o := range operations {
		documents[i] = newDocument(o, now)
	}
	return judgeAll(w.db.insert(ctx, collection, documents), len(operations), created(operations, now))
}

// created gives the results of creations that took effect.
func created(operations []*model.Write, now time.Time) func(int) model.Written {
	return func(i int) model.Written {
		return model.Written{Status: model.Applied, UpdatedAt: updatedBy(operations[i], now)}
	}
}

// remove deletes documents. It raises the watermark first. If the delete does not follow,
// the document still has its own watermark, and the event is processed again.
func (w *Writer) remove(ctx context.Context, collection string, operations []*model.Write) []model.Written {
	results := w.moveWatermarks(ctx, operations)
	for _, kind := range []model.Kind{model.Delete, model.Erase} {
		var part []*model.Write
		var at []int
		for i, o := range operations {
			if o.Kind == kind && results[i].Status == model.Applied {
				part, at = append(part, o), append(at, i)
			}
		}
		if len(part) == 0 {
			continue
		}
		filters := make([]bson.Raw, len(part))
		for i, o := range part {
			if kind == model.Delete {
				filters[i] = guard(&o.Unit, o.From)
			} else {
				filters[i] = outdated(&o.Unit, o.To)
			}
		}
		deleted, err := w.db.remove(ctx, collection, filters)
		if kind == model.Erase && err == nil {
			// Most likely there was nothing to erase.
			continue
		}
		removed, _ := w.resolve(ctx, collection, part, deleted, err, func(o *model.Write, found *found) model.Status {
			// A document of an older generation is not the one that the operation deletes.
			if found != nil && found.generation >= o.Number() {
				return model.Stale
			}
			return model.Applied
		})
		for i, result := range removed {
			results[at[i]] = result
		}
	}
	return results
}
