package readmodel

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// inspectPage is the number of documents that one page of an inspection reads.
const inspectPage = 2000

// inspected projects what shows that a projector has written a document.
var inspected = build(64).int(model.FieldLastEventID, 1).int(model.FieldParts, 1).int(model.FieldLastUpdatedAt, 1).raw()

// Inspection is what a promotion, or a drop, would delete and a new generation does not have: the
// documents that no projector has written, such as those of an application that uses the collection
// itself, and the read models without events.
type Inspection struct {
	// Unmanaged is the number of documents that no projector has written, and Example the _id of
	// one.
	Unmanaged int64
	Example   string
	// Archived is the number of read models whose aggregates have no events, and ExampleArchived
	// the _id of one.
	Archived        int64
	ExampleArchived string
}

// Inspect goes through a whole collection in the order of _id. The _id of a view document is no
// aggregate's. archived returns which of some aggregates have no events; if it is nil, Inspect does
// not look for events.
func Inspect(ctx context.Context, db *mongo.Database, collection string, archived func(context.Context, []string) ([]string, error)) (i Inspection, err error) {
	filter := bson.D{}
	for {
		cursor, err := onMongo(db).db.Collection(collection).Find(ctx, filter, options.Find().SetSort(bson.D{{Key: fieldID, Value: 1}}).
			SetProjection(inspected).SetLimit(inspectPage).SetBatchSize(inspectPage))
		var page []bson.Raw
		if err == nil {
			err = cursor.All(ctx, &page)
		}
		if err != nil {
			return i, fmt.Errorf("inspect the documents of collection %s: %w", collection, err)
		}
		var ids []string
		for _, document := range page {
			id := document.Lookup(fieldID)
			if _, ok := watermarkOf(document); ok {
				if id, ok := id.StringValueOK(); ok {
					ids = append(ids, id)
				}
			} else if !isViewDocument(document) {
				i.Unmanaged++
				i.Example = id.String()
			}
		}
		if archived != nil && len(ids) > 0 {
			without, err := archived(ctx, ids)
			if err != nil {
				return i, err
			}
			if len(without) > 0 {
				i.Archived += int64(len(without))
				i.ExampleArchived = without[0]
			}
		}
		if len(page) < inspectPage {
			return i, nil
		}
		// Unlike an ordinary $gt, this one continues with the _ids of other types.
		after := page[len(page)-1].Lookup(fieldID)
		filter = bson.D{{Key: "$expr", Value: bson.D{{Key: "$gt", Value: bson.A{"$" + fieldID, bson.D{{Key: "$literal", Value: after}}}}}}}
	}
}

// Err is an [ErrLayout] if unmanaged documents were found.
func (i Inspection) Err(db *mongo.Database, collection string) error {
	if i.Unmanaged == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s.%s has %d documents that no projector has written, such as the one with _id %s; a promotion would delete them: give the projection another collection, or move these documents to another one",
		ErrLayout, db.Name(), collection, i.Unmanaged, i.Example)
}

// CheckDocuments inspects a whole collection. The error is an [ErrLayout] if it has
// documents that no projector has written.
func CheckDocuments(ctx context.Context, db *mongo.Database, collection string) error {
	i, err := Inspect(ctx, db, collection, nil)
	if err != nil {
		return err
	}
	return i.Err(db, collection)
}
