package mongox

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// ErrOplogHidden says that the oplog cannot be read: the user lacks the right, or the
// server is a mongos, which has no oplog.
var ErrOplogHidden = errors.New("the oplog cannot be read")

// OplogStart gives the time of the oldest entry of the primary's oplog. It reads the entry
// (the role read on the database local) or, without that right, asks for the server's
// status (the role clusterMonitor). With neither, and through a mongos, it fails with
// [ErrOplogHidden].
func OplogStart(ctx context.Context, client *mongo.Client) (bson.Timestamp, error) {
	var entry struct {
		TS bson.Timestamp `bson:"ts"`
	}
	oplog := client.Database("local").Collection("oplog.rs", options.Collection().SetReadPreference(readpref.Primary()))
	err := oplog.FindOne(ctx, bson.D{}, options.FindOne().
		SetSort(bson.D{{Key: "$natural", Value: 1}}).SetProjection(bson.D{{Key: "ts", Value: 1}})).Decode(&entry)
	if err == nil && !entry.TS.IsZero() {
		return entry.TS, nil
	}
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) && !hidden(err) {
		return bson.Timestamp{}, fmt.Errorf("read the oldest entry of the oplog: %w", err)
	}
	var status struct {
		Oplog struct {
			Earliest bson.Timestamp `bson:"earliestOptime"`
		} `bson:"oplog"`
	}
	err = client.Database("admin").RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}, {Key: "oplog", Value: 1}},
		options.RunCmd().SetReadPreference(readpref.Primary())).Decode(&status)
	switch {
	case err != nil && !hidden(err):
		return bson.Timestamp{}, fmt.Errorf("read the server's status: %w", err)
	case err != nil:
		return bson.Timestamp{}, fmt.Errorf("%w: %w", ErrOplogHidden, err)
	case status.Oplog.Earliest.IsZero():
		return bson.Timestamp{}, fmt.Errorf("%w: the server reports none; a mongos has none", ErrOplogHidden)
	}
	return status.Oplog.Earliest, nil
}

// hidden reports whether the server's answer means that a retry cannot show the oplog
// either.
func hidden(err error) bool {
	answer, ok := errors.AsType[mongo.ServerError](err)
	return ok && !Transient(answer)
}
