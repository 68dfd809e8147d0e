package readmodel

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Watermarks gives the watermark of each unit, in the same order, without its document: 0
// if the unit has no event yet, or if its generation was replaced. It makes one query for
// the side watermarks and one for each collection. Units with Parts have no document.
//
// A watermark may rise after it was read, and is never higher than what a later read finds.
// The side watermarks are read first, because deleting a document raises its side watermark
// before the document is removed, and a side watermark counts only if there is no document.
func Watermarks(ctx context.Context, db *mongo.Database, units []model.Unit) ([]int64, error) {
	return watermarks(ctx, onMongo(db), units)
}

func watermarks(ctx context.Context, db database, units []model.Unit) ([]int64, error) {
	ctx, cancel := mongox.Timeout(ctx, groupTimeout)
	defer cancel()
	keys := make([]*model.Unit, len(units))
	collections := make(map[string][]int)
	for i := range units {
		keys[i] = &units[i]
		if !units[i].Parts {
			collections[units[i].Collection] = append(collections[units[i].Collection], i)
		}
	}
	sides, err := sideWatermarks(ctx, db, keys)
	if err != nil {
		return nil, fmt.Errorf("read watermarks: %w", mongox.Explain(ctx, err))
	}
	found := make([]int64, len(units))
	for i := range units {
		found[i] = max(0, sides[sideKeyOf(&units[i])])
	}
	for collection, indexes := range collections {
		ids := make([]string, len(indexes))
		asked := make(map[string][]int, len(indexes))
		for j, i := range indexes {
			ids[j] = units[i].AggregateID
			asked[ids[j]] = append(asked[ids[j]], i)
		}
		documents, err := db.find(ctx, collection, byID(ids), watermarkOnly, len(ids))
		if err != nil {
			return nil, fmt.Errorf("read watermarks: %w", mongox.Explain(ctx, err))
		}
		for _, document := range documents {
			id, _ := document.Lookup(fieldID).StringValueOK()
			for _, i := range asked[id] {
				// A state with an error, or of a newer generation, has no watermark of the unit.
				found[i] = stateOf(document, &units[i], found[i]).Watermark
			}
		}
	}
	return found, nil
}
