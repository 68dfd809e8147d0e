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

// Office is the lease of the coordinator of a pipeline. It is stored beside the registrations.
type Office struct {
	collection    mongox.Collection
	pipeline, pod string
}

// NewOffice makes the office of a pipeline for a pod. c is the collection [RegistryName].
func NewOffice(c mongox.Collection, pipeline, pod string) *Office { return &Office{c, pipeline, pod} }

// office are the fields of the lease. The document has no field pipeline, so it is no registration.
var office = lease.Fields{Until: "until", Holder: "pod", Epoch: "epoch"}

func (o *Office) id() string { return "coordinator of " + o.pipeline }

// Take makes this pod the coordinator for the duration of the lease, by the server's clock, and
// returns the epoch. The error is [ErrNotCoordinator] if another pod has the lease.
func (o *Office) Take(ctx context.Context, lasts time.Duration) (epoch int64, err error) {
	for range 2 {
		var taken struct {
			Epoch int64 `bson:"epoch"`
		}
		err := o.collection.FindOneAndUpdate(ctx,
			bson.D{{Key: "_id", Value: o.id()}, office.Free()},
			mongo.Pipeline{{{Key: "$set", Value: office.Take(o.pod, lasts)}}},
			options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&taken)
		if err == nil {
			return taken.Epoch, nil
		}
		if errors.Is(err, mongo.ErrNoDocuments) {
			// The first coordinator creates the document.
			_, err = o.collection.InsertOne(ctx, bson.D{{Key: "_id", Value: o.id()}})
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
func (o *Office) Renew(ctx context.Context, epoch int64, lasts time.Duration) error {
	result, err := o.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: o.id()}, office.Held(epoch)},
		mongo.Pipeline{{{Key: "$set", Value: bson.D{office.Renew(lasts)}}}})
	switch {
	case err != nil:
		return fmt.Errorf("renew the lease of the coordinator: %w", err)
	case result.MatchedCount == 0:
		return ErrNotCoordinator
	}
	return nil
}

// Release ends the lease of the coordinator of the epoch.
func (o *Office) Release(ctx context.Context, epoch int64) error { return o.Renew(ctx, epoch, 0) }

// Abandon ends the lease if a dead pod has it, and returns how many it ended.
func (o *Office) Abandon(ctx context.Context, dead []string) (ended int, err error) {
	result, err := o.collection.UpdateOne(ctx,
		bson.D{{Key: "_id", Value: o.id()}, {Key: "pod", Value: bson.D{{Key: "$in", Value: dead}}}, office.Alive()},
		mongo.Pipeline{{{Key: "$set", Value: bson.D{office.Release(0)}}}})
	if err != nil {
		return 0, fmt.Errorf("end the lease of a dead coordinator: %w", err)
	}
	return int(result.MatchedCount), nil
}
