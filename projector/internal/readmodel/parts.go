package readmodel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// hotWait is how long operations on one document are repeated while they conflict with
	// other processes.
	hotWait = 5 * time.Second
	// The pauses between two attempts.
	firstConflictPause, maxConflictPause = 4 * time.Millisecond, 256 * time.Millisecond
	// changedBytes bounds the documents of a transaction. A transaction of several operations
	// reads a quarter of it at a time.
	changedBytes = 64 << 20
)

// contribution is an operation on a part, and its result.
type contribution struct {
	*model.Write
	result *model.Written
	// key is a document to which the part contributes. It is known after an attempt.
	key string
}

// contribute writes parts, and changes the documents to which they contribute in the same
// transactions.
func (w *Writer) contribute(ctx context.Context, collection string, operations []*model.Write) []model.Written {
	results := make([]model.Written, len(operations))
	generations := make(map[sideKey][]contribution)
	for i, o := range operations {
		of := sideKey{projection: o.Projection, generation: o.Number()}
		generations[of] = append(generations[of], contribution{Write: o, result: &results[i]})
	}
	began := time.Now()
	for _, group := range generations {
		w.contributeGroup(ctx, collection, group, began)
	}
	return results
}

// contributeGroup writes parts of one generation of a view in a transaction, and repeats it
// while it conflicts with those of other processes. If it still conflicts after lockWait, the
// group is divided by its documents, because the transaction of a killed process may hold one
// of them.
//
// If the server or a full document refuses an operation, or if the parts of several documents are
// too many bytes, the group is halved, by its documents if it can be, until each half succeeds or
// an operation is alone.
func (w *Writer) contributeGroup(ctx context.Context, collection string, operations []contribution, began time.Time) {
	pause := poll.Backoff{First: firstConflictPause, Max: maxConflictPause}
	for {
		err := w.contributeTogether(ctx, collection, operations)
		first := 0
		switch {
		case err == nil:
			return
		case contended(err):
			first = divide(operations)
			age := time.Since(began)
			if (age < lockWait || first == 0 && age < hotWait) && poll.Wait(ctx, pause.Next()) == nil {
				continue
			}
		case len(operations) > 1 && attributable(err):
			first = cmp.Or(divide(operations), len(operations)/2)
		}
		if first > 0 && ctx.Err() == nil {
			w.contributeGroup(ctx, collection, operations[:first], began)
			w.contributeGroup(ctx, collection, operations[first:], began)
			return
		}
		for _, o := range operations {
			*o.result = model.Written{Status: model.Unknown, Err: err}
			if len(operations) == 1 && !contended(err) {
				*o.result = verdictOnContribution(err)
			}
		}
		return
	}
}

// divide sorts operations by their keys and gives the number of those for the first half, so
// that no key is in both; 0 if there is only one key.
func divide(operations []contribution) int {
	slices.SortStableFunc(operations, func(a, b contribution) int { return cmp.Compare(a.key, b.key) })
	half := len(operations) / 2
	for distance := range half + 1 {
		for _, i := range []int{half - distance, half + distance} {
			if i > 0 && i < len(operations) && operations[i-1].key != operations[i].key {
				return i
			}
		}
	}
	return 0
}

// contended reports whether a transaction has not happened because of another one.
func contended(err error) bool {
	return !errors.Is(err, errUncertain) &&
		(errors.Is(err, errOvertaken) || mongox.HasCode(err, mongox.CodeWriteConflict) || mongox.DuplicateKeyOnID(err))
}

// attributable reports whether a transaction has not happened because of some of its
// operations.
func attributable(err error) bool {
	_, refused := errors.AsType[*viewError](err)
	return refused || errors.Is(err, errTooMuch) || mongox.WriteErrors(err) != nil || rejectsCommand(err)
}

// verdictOnContribution gives the result of a single operation from its error.
func verdictOnContribution(err error) model.Written {
	if _, refused := errors.AsType[*viewError](err); refused || errors.Is(err, errTooMuch) {
		return model.Written{Status: model.Rejected, Err: err}
	}
	return verdictOnCreation(err)
}

// partChange is an operation that was folded from the stored part.
type partChange struct {
	*contribution
	before model.State
	// first says that the unit has no record yet.
	first bool
	// left and joined are what the part contributes to each document before and after; nil if
	// the part does not change.
	left, joined map[string]bson.Raw
	// keys are those of both, sorted.
	keys []string
}

// changed reports whether the part changes, not only its watermark.
func (c *partChange) changed() bool { return !bytes.Equal(c.before.Document, c.Document) }

// contributeTogether carries out operations in one transaction.
func (w *Writer) contributeTogether(ctx context.Context, collection string, operations []contribution) error {
	done, err := w.turns.take(ctx, collection)
	if err != nil {
		return err
	}
	defer done()
	v := viewTransaction{db: w.db, unit: &operations[0].Unit, view: operations[0].View, now: time.Now(), building: operations[0].Building, most: w.changedBytes, mostParts: math.MaxInt, mostChanged: w.changedBytes}
	if len(operations) > 1 {
		v.most, v.mostParts = w.changedBytes/4, w.changedBytes/4
	}
	var changes []partChange
	var documents map[string]*viewChange
	err = w.db.transaction(ctx, func(ctx context.Context) (err error) {
		if changes, err = v.current(ctx, operations); err != nil {
			return err
		}
		changes, documents, err = v.concerned(ctx, changes)
		if err != nil || len(changes) == 0 {
			return err
		}
		updates := make([]update, len(changes))
		for i := range changes {
			c := &changes[i]
			c.result.UpdatedAt = stamp(c.Write, v.now)
			updates[i] = recordUpdate(c, c.result.UpdatedAt)
		}
		if matched, err := v.db.update(ctx, watermarksCollection, updates); err != nil || matched != len(updates) {
			return cmp.Or(err, errOvertaken)
		}
		if err := v.compute(ctx, documents); err != nil {
			return err
		}
		return v.store(ctx, documents)
	})
	if err != nil {
		return fmt.Errorf("write %d parts of %s: %w", len(operations), v.unit.Projection, err)
	}
	w.countWithoutDocument(changes)
	w.reportFull(&v, documents)
	return nil
}

// countWithoutDocument counts the changed parts that contribute to no document.
func (w *Writer) countWithoutDocument(changes []partChange) {
	for i := range changes {
		if c := &changes[i]; c.changed() && len(c.Document) > 0 && len(c.joined) == 0 {
			w.metrics.withoutDocument.WithLabelValues(c.Projection).Inc()
		}
	}
}

// current gives the operations that were folded from the stored parts. The others have their
// results.
func (v *viewTransaction) current(ctx context.Context, operations []contribution) ([]partChange, error) {
	units := make([]*model.Unit, len(operations))
	for i := range operations {
		units[i] = &operations[i].Unit
	}
	found, complete, err := v.db.page(ctx, watermarksCollection, bySideID(units), nil, len(units), v.most)
	if err != nil {
		return nil, err
	}
	if !complete {
		return nil, errTooMuch
	}
	states := make(map[sideKey]model.State, len(found))
	for _, record := range found {
		states[sideKeyIn(record)] = stateOfRecord(record)
	}
	var changes []partChange
	for i := range operations {
		o := &operations[i]
		before, exists := states[sideKeyOf(&o.Unit)]
		if !exists {
			before.Watermark = o.NoEvent()
		}
		switch {
		case before.Err != nil:
			*o.result = model.Written{Status: model.Rejected, Err: before.Err}
		case before.Watermark == o.From && before.UpdatedAt == o.UpdatedAt:
			*o.result = model.Written{Status: model.Applied}
			changes = append(changes, v.partChange(o, before, !exists))
		case before.Watermark == o.To && o.From < o.To:
			// A writer that folded the same events has written it.
			*o.result = model.Written{Status: model.Applied}
		default:
			*o.result = model.Written{Status: model.Stale}
		}
	}
	return changes, nil
}

func (v *viewTransaction) partChange(o *contribution, before model.State, first bool) partChange {
	c := partChange{contribution: o, before: before, first: first}
	if !c.changed() {
		return c
	}
	if len(before.Document) > 0 {
		c.left = v.view.Split(before.Document)
	}
	if len(o.Document) > 0 {
		c.joined = v.view.Split(o.Document)
	}
	c.keys = slices.AppendSeq(slices.Collect(maps.Keys(c.left)), maps.Keys(c.joined))
	slices.Sort(c.keys)
	if c.keys = slices.Compact(c.keys); len(c.keys) > 0 {
		o.key = c.keys[0]
	}
	return c
}

// concerned reads the documents of changes. The result leaves out changes of documents that must
// not be written: those have their results.
func (v *viewTransaction) concerned(ctx context.Context, changes []partChange) ([]partChange, map[string]*viewChange, error) {
	documents := documentsOf(changes)
	if len(documents) == 0 {
		return changes, nil, nil
	}
	stored, err := v.find(ctx, slices.Sorted(maps.Keys(documents)))
	if err != nil {
		return nil, nil, err
	}
	changes = slices.DeleteFunc(changes, func(c partChange) bool {
		for _, key := range c.keys {
			if err := stored[key].err; err != nil {
				*c.result = model.Written{Status: model.Rejected, Err: &viewError{key, err}}
				if errors.Is(err, model.ErrSuperseded) {
					c.result.Status = model.Unknown
				}
				return true
			}
		}
		return false
	})
	documents = documentsOf(changes)
	for key, c := range documents {
		c.stored = stored[key]
	}
	return changes, documents, nil
}

// documentsOf are the documents that changes of parts concern.
func documentsOf(changes []partChange) map[string]*viewChange {
	documents := make(map[string]*viewChange)
	for i := range changes {
		c := &changes[i]
		for _, key := range c.keys {
			d := documents[key]
			if d == nil {
				d = &viewChange{}
				documents[key] = d
			}
			before, left := c.left[key]
			d.left = d.left || left
			d.parts = append(d.parts, model.PartChange{AggregateID: c.AggregateID, Before: before, After: c.joined[key]})
		}
	}
	return documents
}

// turns let one transaction at a time run in each collection of a view. Two transactions of
// one process would often change the same document. The zero value is ready.
type turns struct{ byCollection sync.Map }

// take waits for the turn of a collection. The caller ends it with done.
func (t *turns) take(ctx context.Context, collection string) (done func(), err error) {
	slot, _ := t.byCollection.LoadOrStore(collection, make(chan struct{}, 1))
	turn := slot.(chan struct{})
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
