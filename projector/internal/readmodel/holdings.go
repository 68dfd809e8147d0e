package readmodel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// HighestGeneration returns the highest generation number of the documents in a collection and of the
// watermarks of a projection; 0 for none. It reads the whole collection. The error is an [ErrLayout]
// if the collection has documents that no projector has written.
func HighestGeneration(ctx context.Context, db *mongo.Database, projection, collection string) (int64, error) {
	if err := CheckDocuments(ctx, db, collection); err != nil {
		return 0, err
	}
	m := onMongo(db)
	documents, err := m.highest(ctx, collection, nil, model.FieldLastGeneration)
	if err != nil {
		return 0, fmt.Errorf("look for read models in collection %s: %w", collection, err)
	}
	watermarks, err := m.highest(ctx, watermarksCollection, sidesOf(projection, nil), fieldID+"."+fieldGeneration)
	if err != nil {
		return 0, fmt.Errorf("look for watermarks of projection %s: %w", projection, err)
	}
	return max(documents, watermarks), nil
}

// highest returns the highest generation of the documents that match a filter; 0 if none
// does. field has the generation.
func (m mongoDatabase) highest(ctx context.Context, collection string, filter bson.Raw, field string) (int64, error) {
	numbered := build(64+len(filter)).elements(filter).document(field).string("$type", "number").end().raw()
	project := bson.D{{Key: field, Value: 1}}
	var found bson.Raw
	err := m.db.Collection(collection).FindOne(ctx, numbered, options.FindOne().SetSort(bson.D{{Key: field, Value: -1}}).SetProjection(project)).Decode(&found)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, nil
	}
	n, _ := found.Lookup(strings.Split(field, ".")...).AsInt64OK()
	return n, err
}
