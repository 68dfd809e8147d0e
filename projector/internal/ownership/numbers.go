package ownership

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Numbers are the highest generation numbers that projections have used, for each
// projection and collection. They are stored beside the owners in the database of the read
// models. So they are known to every pipeline that uses a collection, and survive the loss
// of the state database.
type Numbers struct {
	collection *mongo.Collection
}

// NewNumbers makes the numbers of a database of read models.
func NewNumbers(db *mongo.Database) Numbers { return Numbers{Owners(db)} }

// used is a stored number.
type used struct {
	ID struct {
		Collection string `bson:"collection"`
		Projection string `bson:"projection"`
	} `bson:"_id"`
	// Generation is the highest number, and Live the highest one of a live generation.
	Generation int64 `bson:"generation"`
	Live       int64 `bson:"live"`
}

// Use records that a projection uses a generation number for a collection. live is set if
// the generation is in the collection, and not in one beside it. A process must record a
// number before it writes the first document with it.
func (n Numbers) Use(ctx context.Context, projection, collection string, generation int64, live bool) error {
	highest := bson.D{{Key: "generation", Value: generation}}
	if live {
		highest = append(highest, bson.E{Key: "live", Value: generation})
	}
	_, err := n.collection.UpdateOne(ctx,
		bson.D{{Key: "_id", Value: bson.D{{Key: "collection", Value: collection}, {Key: "projection", Value: projection}}}},
		bson.D{{Key: "$max", Value: highest}}, options.UpdateOne().SetUpsert(true))
	if err != nil {
		return fmt.Errorf("record generation %d of projection %s for collection %s: %w", generation, projection, collection, err)
	}
	return nil
}

// Used returns the highest number that the projection has used for any collection, and the
// highest with which others were live in this collection; 0 for none. last is set if the
// projection was the last to be live in the collection, or if nothing is recorded of the
// collection.
func (n Numbers) Used(ctx context.Context, projection, collection string) (own, others int64, last bool, err error) {
	all, err := mongox.All[used](ctx, n.collection)(n.collection.Find(ctx, bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: "_id.collection", Value: collection}}, bson.D{{Key: "_id.projection", Value: projection}},
	}}}))
	if err != nil {
		return 0, 0, false, fmt.Errorf("read the generation numbers used for collection %s: %w", collection, err)
	}
	var live int64
	known := false
	for _, u := range all {
		here := u.ID.Collection == collection
		known = known || here
		switch {
		case u.ID.Projection != projection:
			others = max(others, u.Live)
		case here:
			live = u.Live
			fallthrough
		default:
			own = max(own, u.Generation)
		}
	}
	return own, others, !known || live > others, nil
}
