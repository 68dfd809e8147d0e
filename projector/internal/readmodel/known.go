package readmodel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// fieldSince is when a projection was started for the first time.
const fieldSince = "since"

// Known reports whether a projection has been started before: it was recorded, or it
// has a read model or a watermark.
func Known(ctx context.Context, db *mongo.Database, projection, collection string) (bool, error) {
	m := onMongo(db)
	for _, look := range []struct {
		collection string
		filter     bson.D
	}{
		{watermarksCollection, bson.D{{Key: fieldID, Value: recordID(projection)}}},
		{collection, bson.D{}},
		{watermarksCollection, bson.D{{Key: fieldID + "." + fieldProjection, Value: projection}}},
	} {
		err := m.db.Collection(look.collection).FindOne(ctx, look.filter, options.FindOne().SetProjection(bson.D{{Key: fieldID, Value: 1}})).Err()
		switch {
		case err == nil:
			return true, nil
		case !errors.Is(err, mongo.ErrNoDocuments):
			return false, fmt.Errorf("look for read models of projection %s: %w", projection, err)
		}
	}
	return false, nil
}

// Record notes that a projection is known from now on. Recording it again changes
// nothing.
func Record(ctx context.Context, db *mongo.Database, projection string) error {
	_, err := onMongo(db).db.Collection(watermarksCollection).UpdateOne(ctx,
		bson.D{{Key: fieldID, Value: recordID(projection)}},
		bson.D{{Key: "$setOnInsert", Value: bson.D{{Key: fieldSince, Value: time.Now()}}}},
		options.UpdateOne().SetUpsert(true))
	if err != nil {
		return fmt.Errorf("record projection %s: %w", projection, err)
	}
	return nil
}

// recordID is the _id of a projection's record among the watermarks: that of no
// aggregate.
func recordID(projection string) bson.D {
	return bson.D{{Key: fieldProjection, Value: projection}, {Key: fieldAggregateID, Value: ""}}
}
