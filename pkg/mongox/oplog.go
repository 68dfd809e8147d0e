package mongox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// ErrOplogHidden says that the oplog cannot be read: the user lacks the right, or the
// server is a mongos, which has no oplog.
var ErrOplogHidden = errors.New("the oplog cannot be read")

// initiatingSet is the message of the no-op that the initiation of a replica set writes as
// the first entry of its oplog. MongoDB recognises a complete oplog by it too (kInitiatingSetMsg
// in src/mongo/db/repl/oplog_entry.h).
const initiatingSet = "initiating set"

// OplogBegin is the beginning of an oplog.
type OplogBegin struct {
	// At is the time of the oldest entry.
	At bson.Timestamp
	// Complete says that the oplog still has its first entry. It has dropped nothing, so it
	// has lost no position. It is false if only the server's status can be read.
	Complete bool
}

// Time returns the time of the oldest entry, in seconds.
func (b OplogBegin) Time() time.Time { return time.Unix(int64(b.At.T), 0) }

// ReadOplogBegin reads the oldest entry of the primary's oplog (the role read on the
// database local) or, without that right, asks for the server's status (the role
// clusterMonitor). With neither, and through a mongos, it fails with [ErrOplogHidden].
func ReadOplogBegin(ctx context.Context, client *mongo.Client) (OplogBegin, error) {
	var entry struct {
		TS     bson.Timestamp `bson:"ts"`
		Kind   string         `bson:"op"`
		Object struct {
			Message string `bson:"msg"`
		} `bson:"o"`
	}
	oplog := client.Database("local").Collection("oplog.rs")
	err := oplog.FindOne(ctx, bson.D{}, options.FindOne().
		SetSort(bson.D{{Key: "$natural", Value: 1}}).SetProjection(bson.D{{Key: "ts", Value: 1}, {Key: "op", Value: 1}, {Key: "o.msg", Value: 1}})).Decode(&entry)
	if err == nil && !entry.TS.IsZero() {
		return OplogBegin{At: entry.TS, Complete: entry.Kind == "n" && entry.Object.Message == initiatingSet}, nil
	}
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) && !hidden(err) {
		return OplogBegin{}, fmt.Errorf("read the oldest entry of the oplog: %w", err)
	}
	var status struct {
		Oplog struct {
			Earliest bson.Timestamp `bson:"earliestOptime"`
		} `bson:"oplog"`
	}
	err = client.Database("admin").RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}, {Key: "oplog", Value: 1}}).Decode(&status)
	switch {
	case err != nil && !hidden(err):
		return OplogBegin{}, fmt.Errorf("read the server's status: %w", err)
	case err != nil:
		return OplogBegin{}, fmt.Errorf("%w: %w", ErrOplogHidden, err)
	case status.Oplog.Earliest.IsZero():
		return OplogBegin{}, fmt.Errorf("%w: the server reports none; a mongos has none", ErrOplogHidden)
	}
	return OplogBegin{At: status.Oplog.Earliest}, nil
}

// hidden reports whether the server's answer means that a retry cannot show the oplog
// either.
func hidden(err error) bool {
	answer, ok := errors.AsType[mongo.ServerError](err)
	return ok && !Transient(answer)
}
