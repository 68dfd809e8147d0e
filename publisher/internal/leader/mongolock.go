package leader

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// LeaseCollection is what the lock needs of a [*mongo.Collection].
type LeaseCollection interface {
	FindOne(ctx context.Context, filter any, opts ...options.Lister[options.FindOneOptions]) *mongo.SingleResult
	InsertOne(ctx context.Context, document any, opts ...options.Lister[options.InsertOneOptions]) (*mongo.InsertOneResult, error)
	UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error)
}

// Leases returns the collection leader_leases of db, with the concerns that a lock
// needs: majority writes and reads, on the primary.
func Leases(db *mongo.Database) *mongo.Collection { panic("pending") }

// NewMongoLock makes a lock on the document of leases whose _id is name.
func NewMongoLock(leases LeaseCollection, name, identity string) resourcelock.Interface {
	panic("pending")
}
