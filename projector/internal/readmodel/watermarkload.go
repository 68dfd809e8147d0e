package readmodel

import (
	"context"
	"math"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// watermarkPage is how many units one query has.
const watermarkPage = 1000

// Watermarks gives the state of each unit without its document, in the same order. It reads
// only the watermarks and generations of documents, so it is made for comparing many units
// with the event store. Unlike [Loader.Load] it shares no queries with other callers, never
// defers a unit, and leaves nothing to release. Run need not be running. If a collection
// cannot be read, its units are unavailable. The error is the context's cause.
func (l *Loader) Watermarks(ctx context.Context, units []model.Unit) ([]model.State, error) {
	// The results are small: pages bound them, and they are in memory only briefly.
	small := &Loader{db: l.db, budget: newBudget(math.MaxInt), bare: true}
	byCollection := make(map[string][]int)
	for i := range units {
		byCollection[units[i].Collection] = append(byCollection[units[i].Collection], i)
	}
	states := make([]model.State, len(units))
	for collection, indexes := range byCollection {
		for len(indexes) > 0 {
			page := indexes[:min(watermarkPage, len(indexes))]
			indexes = indexes[len(page):]
			asked := make([]model.Unit, len(page))
			for j, i := range page {
				asked[j] = units[i]
			}
			for j, state := range small.load(ctx, collection, asked) {
				state.Document = nil
				states[page[j]] = state
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
	}
	return states, nil
}
