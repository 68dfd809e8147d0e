package readmodel

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Known reports whether a projection was started before there was a catalog: an earlier
// version has recorded it, or it has a read model or a watermark.
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

// recordID is the _id of a projection's record in the collection of the watermarks. No
// aggregate has it.
func recordID(projection string) bson.D {
	return bson.D{{Key: fieldProjection, Value: projection}, {Key: fieldAggregateID, Value: ""}}
}
