package history

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// watermarksCollection holds the side watermarks, in the database of the read models.
const watermarksCollection = "watermarks"

// Database lists documents and side watermarks in the database of the read models.
type Database struct{ db *mongo.Database }

// NewDatabase makes a listing of the read models' database.
func NewDatabase(db *mongo.Database) *Database { return &Database{db} }

// Documents returns the string ids of at most limit documents after the given id, in order. Fewer
// than limit means that there are no more.
func (d *Database) Documents(ctx context.Context, u model.Unit, after string, limit int) ([]string, error) {
	ids, err := d.list(ctx, u.Collection, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}}, limit)
	if err != nil {
		return nil, listed("documents of "+u.Collection, err)
	}
	return texts(ids), nil
}

// Listed returns those of the ids that Documents lists.
func (d *Database) Listed(ctx context.Context, u model.Unit, ids []string) ([]string, error) {
	found, err := d.list(ctx, u.Collection, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, len(ids))
	if err != nil {
		return nil, listed("documents of "+u.Collection, err)
	}
	return texts(found), nil
}

// Odd returns the _ids that are not strings, as Extended JSON, at most limit.
func (d *Database) Odd(ctx context.Context, u model.Unit, limit int) ([]string, error) {
	ids, err := d.list(ctx, u.Collection, bson.D{{Key: "_id", Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$type", Value: "string"}}}}}}, limit)
	if err != nil {
		return nil, listed("documents of "+u.Collection, err)
	}
	found := make([]string, len(ids))
	for i, id := range ids {
		found[i] = id.String()
	}
	return found, nil
}

// Watermarks returns the aggregate ids of at most limit side watermarks of the unit after the given
// id, in order.
func (d *Database) Watermarks(ctx context.Context, u model.Unit, after string, limit int) ([]string, error) {
	bound := func(aggregateID any) bson.D {
		id := bson.D{{Key: "projection", Value: u.Projection}, {Key: "aggregateId", Value: aggregateID}}
		if aggregateID == after && after != "" {
			// Skip the watermarks of all generations of this aggregate.
			id = append(id, bson.E{Key: "generation", Value: bson.MaxKey{}})
		}
		return id
	}
	generation := bson.E{Key: "_id.generation", Value: u.Number()}
	ids, err := d.list(ctx, watermarksCollection, bson.D{
		{Key: "_id", Value: bson.D{{Key: "$gt", Value: bound(after)}, {Key: "$lt", Value: bound(bson.MaxKey{})}}}, generation,
	}, limit)
	if err != nil {
		return nil, listed("watermarks of "+u.Projection, err)
	}
	found := make([]string, 0, len(ids))
	for _, id := range ids {
		if document, ok := id.DocumentOK(); ok {
			if text, ok := document.Lookup("aggregateId").StringValueOK(); ok && text != "" {
				found = append(found, text)
			}
		}
	}
	return found, nil
}

// texts returns those of the _ids that are strings.
func texts(ids []bson.RawValue) []string {
	found := make([]string, 0, len(ids))
	for _, id := range ids {
		if text, ok := id.StringValueOK(); ok {
			found = append(found, text)
		}
	}
	return found
}

// list returns the _ids of the matching documents, in order.
func (d *Database) list(ctx context.Context, collection string, filter bson.D, limit int) ([]bson.RawValue, error) {
	cursor, err := d.db.Collection(collection).Find(ctx, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).
		SetProjection(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)).SetBatchSize(int32(limit)))
	if err != nil {
		return nil, err
	}
	var documents []struct {
		ID bson.RawValue `bson:"_id"`
	}
	if err := cursor.All(ctx, &documents); err != nil {
		return nil, err
	}
	ids := make([]bson.RawValue, len(documents))
	for i, document := range documents {
		ids[i] = document.ID
	}
	return ids, nil
}
