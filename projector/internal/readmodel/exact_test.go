package readmodel

import (
	"testing"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// testExact checks the guard of a state that was kept since its write: it matches exactly
// the document that the write left, and no other document with the same watermark.
func testExact(t *testing.T, db database) {
	t.Helper()
	s, k := newTestStore(t, db), keyOf("exact")
	writeOne := func(o model.Write) model.Written {
		t.Helper()
		o.Unit = k
		return s.write(t, o)[0]
	}
	update := func(from int64, at int64, exact bool) model.Written {
		t.Helper()
		return writeOne(model.Write{Kind: model.Update, From: from, To: from + 1, UpdatedAt: at, Exact: exact, Update: testkit.FromJSON(`{"$set":{"n":1}}`)})
	}
	loaded := func() model.State {
		t.Helper()
		return s.state(t, k)
	}
	made := writeOne(model.Write{Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"n":1}`)})
	if made.UpdatedAt == 0 || made.UpdatedAt != loaded().UpdatedAt {
		t.Fatalf("the creation was at %d, the document says %d", made.UpdatedAt, loaded().UpdatedAt)
	}
	next := update(1, made.UpdatedAt, true)
	if next.Status != model.Applied || next.UpdatedAt <= made.UpdatedAt || next.UpdatedAt != loaded().UpdatedAt {
		t.Fatalf("an exact update gave %+v, and the document says %d", next, loaded().UpdatedAt)
	}
	// If only the watermark moves, the time of the last change stays, and the guard is
	// still exact.
	moved := writeOne(model.Write{Kind: model.Update, From: 2, To: 3, UpdatedAt: next.UpdatedAt, Exact: true})
	if moved.Status != model.Applied || moved.UpdatedAt != next.UpdatedAt || moved.UpdatedAt != loaded().UpdatedAt {
		t.Fatalf("a moved watermark gave %+v, and the document says %d", moved, loaded().UpdatedAt)
	}
	for _, at := range []int64{0, moved.UpdatedAt - 1, moved.UpdatedAt + 1} {
		if got := update(3, at, true); got.Status != model.Stale {
			t.Errorf("an exact update of a document from %d, not %d, is %v", moved.UpdatedAt, at, got.Status)
		}
	}
	// A document with a time in the future gets later times, too.
	const ahead = 1 << 44
	if got := update(3, ahead, false); got.Status != model.Applied || got.UpdatedAt != ahead+1 || loaded().UpdatedAt != ahead+1 {
		t.Errorf("the update of a document from %d gave %+v, and the document says %d", ahead, got, loaded().UpdatedAt)
	}
	// Another writer has moved the document to the watermark of this write. The write
	// counts as applied, but the time is that of the other write.
	if got := update(3, ahead, false); got.Status != model.Applied || got.UpdatedAt != 0 {
		t.Errorf("a write that another one has made gave %+v", got)
	}
}

// TestKeptStateIsStaleAfterARepair checks that a document that a repair has replaced at
// the same watermark always has a later time, even if the repair's clock is behind. A
// guard on the watermark alone would match it.
func TestKeptStateIsStaleAfterARepair(t *testing.T) {
	t.Parallel()
	db := newDatabase(t).db
	s, k := newTestStore(t, onMongo(db)), keyOf("repaired")
	const ahead = 1 << 44
	s.apply(t, model.Applied,
		model.Write{Unit: k, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"n":1}`)})
	written, err := s.Write(t.Context(), []model.Write{{Unit: k, Kind: model.Update, From: 1, To: 2, UpdatedAt: ahead, Update: testkit.FromJSON(`{"$set":{"n":-2}}`)}})
	if err != nil || written[0].UpdatedAt != ahead+1 {
		t.Fatal(written, err)
	}
	r := NewRepairer(db)
	if ok, err := r.SetAside(t.Context(), k, 2); !ok || err != nil {
		t.Fatal(ok, err)
	}
	states, err := s.Load(t.Context(), []model.Unit{k})
	if err != nil || states[0].Foreign == nil {
		t.Fatal(states, err)
	}
	s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, To: 2, Foreign: states[0].Foreign, Document: testkit.FromJSON(`{"n":2}`)})
	kept := model.Write{Unit: k, Kind: model.Update, From: 2, To: 3, UpdatedAt: ahead + 1, Exact: true, Update: testkit.FromJSON(`{"$set":{"n":-3}}`)}
	s.apply(t, model.Stale, kept)
	s.expect(t, k, 2, `{"n":2}`)
	kept.Exact = false
	s.apply(t, model.Applied, kept)
}
