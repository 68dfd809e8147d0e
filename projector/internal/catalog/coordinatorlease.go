package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/lease"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// ErrNotCoordinator is returned if another pod may be the coordinator.
var ErrNotCoordinator = errors.New("this pod is not the coordinator of the pipeline's projections")

// CoordinatorLease is the lease of the coordinator of a pipeline. It is stored beside the registrations.
type CoordinatorLease struct {
	collection    mongox.Collection
	pipeline, pod string
}

// NewCoordinatorLease makes the lease of a pipeline for a pod. c is the collection [RegistryName].
func NewCoordinatorLease(c mongox.Collection, pipeline, pod string) *CoordinatorLease {
	return &CoordinatorLease{c, pipeline, pod}
}

// leaseFields are the fields of the lease. The document has no field pipeline, so it is no registration.
// It ends as a registration does: see [Registry.Succeed].
var leaseFields = lease.Fields{Until: registration.Until, Holder: "pod", Epoch: "epoch"}

func (l *CoordinatorLease) id() string { return "coordinator of " + l.pipeline }

// Take makes this pod the coordinator for the duration of the lease, by the server's clock, and
// returns the epoch. The error is [ErrNotCoordinator] if another pod has the lease.
func (l *CoordinatorLease) Take(ctx context.Context, lasts time.Duration) (epoch int64, err error) {
	for range 2 {
		var taken struct {
			Epoch int64 `bson:"epoch"`
		}
		err := l.collection.FindOneAndUpdate(ctx,
			bson.D{{Key: "_id", Value: l.id()}, leaseFields.Free()},
			mongo.Pipeline{{{Key: "$set", Value: leaseFields.Take(l.pod, lasts)}}},
			options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&taken)
		if err == nil {
			return taken.Epoch, nil
		}
		if errors.Is(err, mongo.ErrNoDocuments) {
			// The first coordinator creates the document.
			_, err = l.collection.InsertOne(ctx, bson.D{{Key: "_id", Value: l.id()}})
		}
		if mongo.IsDuplicateKeyError(err) {
			return 0, ErrNotCoordinator
		}
		if err != nil {
			return 0, fmt.Errorf("become the coordinator: %w", err)
		}
	}
	return 0, ErrNotCoordinator
}

// Renew extends the lease of the coordinator of the epoch. The error is [ErrNotCoordinator] if
// there is another coordinator since.
func (l *CoordinatorLease) Renew(ctx context.Context, epoch int64, lasts time.Duration) error {
	result, err := l.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: l.id()}, leaseFields.Held(epoch)},
		mongo.Pipeline{{{Key: "$set", Value: bson.D{leaseFields.Renew(lasts)}}}})
	switch {
	case err != nil:
		return fmt.Errorf("renew the lease of the coordinator: %w", err)
	case result.MatchedCount == 0:
		return ErrNotCoordinator
	}
	return nil
}

// Release ends the lease of the coordinator of the epoch.
func (l *CoordinatorLease) Release(ctx context.Context, epoch int64) error {
	return l.Renew(ctx, epoch, 0)
}
