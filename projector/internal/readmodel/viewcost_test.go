package readmodel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// counting counts the calls of a view, and the most documents of a part that it gets.
type counting struct {
	sums
	splits, merges, widest int
	// merged runs after each Merge.
	merged func()
}

func (c *counting) Split(part bson.Raw) map[string]bson.Raw {
	c.splits++
	return c.sums.Split(part)
}

func (c *counting) Merge(key string, document bson.Raw, changes []model.PartChange) (bson.Raw, bool, error) {
	c.merges++
	for _, change := range changes {
		c.widest = max(c.widest, len(c.Keys(change.Before)), len(c.Keys(change.After)))
	}
	if c.merged != nil {
		defer c.merged()
	}
	return c.sums.Merge(key, document, changes)
}

// TestPartOfManyDocumentsIsSplitOnce checks that the work on a part is linear in the number of
// its documents.
func TestPartOfManyDocumentsIsSplitOnce(t *testing.T) {
	t.Parallel()
	s, v := newTestStore(t, newDatabase(t)), &counting{}
	amounts := func(cents int64) (all []testAmount) {
		for i := range 100 {
			all = append(all, to(fmt.Sprint(i), cents))
		}
		return all
	}
	for _, w := range []struct {
		aggregate string
		to, cents int64
		want      int
	}{
		{"a", 1, 9, 1}, {"b", 1, 1, 1}, {"b", 2, 2, 2},
		{"a", 2, 3, 4}, // the maximum of each document falls, so all are made of their parts
	} {
		write := partWrite(viewUnit(w.aggregate), s.state(t, viewUnit(w.aggregate)), w.to, partWith("x", amounts(w.cents)...))
		write.View, v.splits = v, 0
		if s.apply(t, model.Applied, write); v.splits != w.want || v.widest != 1 {
			t.Errorf("write %d of %s splits %d parts, and merges parts of up to %d documents", w.to, w.aggregate, v.splits, v.widest)
		}
	}
}

// TestDocumentsAreMadeUntilTheContextEnds checks that a process can stop although a part has
// many documents.
func TestDocumentsAreMadeUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	v := &counting{merged: cancel}
	changes := map[string]*viewChange{}
	for i := range 50 {
		changes[fmt.Sprint(i)] = &viewChange{}
	}
	transaction := viewTransaction{view: v, mostChanged: changedBytes}
	if err := transaction.compute(ctx, changes); !errors.Is(err, context.Canceled) || v.merges != 1 {
		t.Errorf("%d documents are made, %v", v.merges, err)
	}
}

// TestPartOfTooManyBytesIsRejected checks that the documents of one part, which are in memory at
// the same time, are bounded, whether they are read or made.
func TestPartOfTooManyBytesIsRejected(t *testing.T) {
	t.Parallel()
	s := newTestStore(t, newDatabase(t))
	s.changedBytes = 64 << 10
	note := strings.Repeat("x", 9<<10)
	var amounts []testAmount
	for i := range 8 {
		amounts = append(amounts, to(fmt.Sprint(i), 1))
	}
	rejected := func(part bson.Raw) {
		t.Helper()
		results, err := s.Write(t.Context(), []model.Write{partWrite(viewUnit("a"), model.State{}, 1, part)})
		if err != nil || results[0].Status != model.Rejected || !errors.Is(results[0].Err, errTooMuch) {
			t.Errorf("%v, %v", results, err)
		}
	}
	rejected(partWith(note, amounts...))
	for i := range amounts {
		s.put(t, viewUnit(fmt.Sprint(i)), 1, partWith(note, amounts[i]))
	}
	rejected(partWith("x", amounts...))
	s.apply(t, model.Applied, partWrite(viewUnit("a"), model.State{}, 1, partWith("x", amounts[:7]...)))
}

// TestGroupReadsThePartsOfADocumentOnce lets the maximum of two documents fall by several parts
// at the same time. The documents must be made of all their parts, which are more bytes than a
// transaction of several documents reads.
func TestGroupReadsThePartsOfADocumentOnce(t *testing.T) {
	t.Parallel()
	db := &faulty{database: newDatabase(t)}
	s, v := newTestStore(t, db), &counting{}
	s.changedBytes = 1 << 20
	const parts = 12
	keys, unused := []string{"k", "l"}, strings.Repeat("x", s.changedBytes/4/parts+1)
	part := func(key string, cents int) bson.Raw {
		return testkit.Raw(bson.D{{Key: "documents", Value: []testAmount{to(key, int64(cents))}}, {Key: "unused", Value: unused}})
	}
	var writes []model.Write
	for i := range 2 * parts {
		unit, key := viewUnit(fmt.Sprint(i)), keys[i%2]
		s.put(t, unit, 1, part(key, i))
		if i >= 2*parts-6 { // the greatest ones
			w := partWrite(unit, s.state(t, unit), 2, part(key, -i))
			w.View = v
			writes = append(writes, w)
		}
	}
	before := db.committed.Load()
	v.splits = 0
	s.apply(t, model.Applied, writes...)
	// Each part that changes is split before and after, in each of the three attempts.
	if commits, most := db.committed.Load()-before, 3*2*len(writes)+3*2*parts; commits != int64(len(keys)) || v.splits > most {
		t.Errorf("%d transactions, and %d parts are split, more than %d", commits, v.splits, most)
	}
	expectWhole(t, db, viewUnit(""))
}

// TestFullDocumentRefusesItsOwnPartsOnly checks that the others of a group are written if full
// documents cannot have some of its parts.
func TestFullDocumentRefusesItsOwnPartsOnly(t *testing.T) {
	t.Parallel()
	db := &faulty{database: newDatabase(t)}
	s, v := newTestStore(t, db), &counting{}
	s.put(t, viewUnit("a"), 1, partWith("x", to("k", sumsLimit-1100), to("l", sumsLimit-1)))
	s.put(t, viewUnit("z"), 1, partWith("x", to("k", 500)))
	var writes []model.Write
	for i := range 60 {
		key := []string{"k", "l", "other"}[i%3]
		writes = append(writes, partWrite(viewUnit(fmt.Sprint(i)), model.State{}, 1, partWith("x", to(key, 600))))
	}
	writes = append(writes, partWrite(viewUnit("z"), s.state(t, viewUnit("z")), 2, partWith("x", to("other", 1))))
	for i := range writes {
		writes[i].View = v
	}
	results, err := s.Write(t.Context(), writes)
	if err != nil {
		t.Fatal(err)
	}
	applied := map[string]int{}
	for i, r := range results {
		if key := v.Keys(writes[i].Document)[0]; r.Status == model.Applied {
			applied[key]++
		} else if r.Status != model.Rejected || !errors.Is(r.Err, errSum) {
			t.Errorf("%s in %s: %+v", writes[i].AggregateID, key, r)
		}
	}
	// z makes room for one.
	if applied["k"] != 1 || applied["l"] != 0 || applied["other"] != 21 {
		t.Errorf("applied are %v", applied)
	}
}
