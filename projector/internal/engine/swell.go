package engine

import (
	"context"

	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// The memory of a fold is that of its events and of its document, which are counted when
// they arrive and when they are loaded. An expression can make a document much larger than
// both. In one process, one track at a time folds and writes such documents.
const (
	// swellFree is by how many bytes the documents of a round may grow without a turn.
	swellFree = 1 << 20
	// maxSwell ends the folding of a round that has the turn. The units that are left
	// follow in the next round.
	maxSwell = 16 << 20
)

// takeTurn begins a round, and waits for the turn if the round needs it.
func (t *track) takeTurn(ctx context.Context) (end func(), err error) {
	t.waits = t.waits || t.turn && t.swollen > maxSwell // units are left
	t.swollen, t.turn = 0, t.waits
	if !t.waits {
		return func() {}, nil
	}
	select {
	case t.swelling <- struct{}{}:
		t.waits = false
		return func() { <-t.swelling }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// full reports whether the round must not fold further units.
func (t *track) full() bool { return t.swollen > maxSwell || t.waits }

// foldRun folds a unit's run, and reports whether the result may be kept in memory and
// written in this round. Otherwise the unit is folded again in a round that has the turn.
// The write is made only then, because it is another copy.
func (t *track) foldRun(ctx context.Context, u *unit) bool {
	room := swellFree - t.swollen
	if t.turn {
		room = projection.Unbounded
	}
	fold := u.target.Projection.FoldWithin
	if u.run[0].EventID != u.watermark+1 {
		fold = u.target.Projection.FoldAnew
	}
	u.fold = fold(ctx, u.document, u.run, room)
	t.swollen += max(0, u.fold.Grown)
	if t.swollen > swellFree && !t.turn {
		t.waits = true
		return false
	}
	if u.fold.Folded > 0 {
		u.fold.Conclude()
	}
	return true
}
