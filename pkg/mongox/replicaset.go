package mongox

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// ErrNoReplicaSet says that a server is a standalone server, with the remedy. Penstock
// needs change streams, transactions and majority concerns, which only a replica set has.
var ErrNoReplicaSet = errors.New("it is not a replica set, and only a replica set has change streams, transactions and a majority; start mongod with --replSet and run rs.initiate(), one node is enough")

// RemedyNotPrimary is the remedy for [ErrNotPrimary].
const RemedyNotPrimary = "name all members and replicaSet in the connection string instead of directConnection"

// ErrNotPrimary says that a direct connection leads to a member that accepts no writes, with the
// remedy. The driver does not detect that.
var ErrNotPrimary = errors.New("the member of the direct connection is not the primary: " + RemedyNotPrimary)

// CheckReplicaSet asks the primary whether it belongs to a replica set or a sharded
// cluster. A standalone server is [ErrNoReplicaSet], another product [ErrNotMongoDB], and an
// old version [ErrTooOld]. Every other error is that of the request, for example a refused
// login.
func CheckReplicaSet(ctx context.Context, client *mongo.Client) error {
	// Unlike hello, a ping is authenticated.
	if err := client.Ping(ctx, nil); err != nil {
		return err
	}
	hello, err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
	if err != nil {
		return err
	}
	if err := checkHello(hello); err != nil {
		return err
	}
	if err := checkVersion(ctx, client, hello); err != nil {
		return err
	}
	_, isReplicaSet := hello.Lookup("setName").StringValueOK()
	message, _ := hello.Lookup("msg").StringValueOK()
	if !isReplicaSet && message != "isdbgrid" {
		return ErrNoReplicaSet
	}
	if writable, ok := hello.Lookup("isWritablePrimary").BooleanOK(); ok && !writable {
		return ErrNotPrimary
	}
	return nil
}

// reachOnce and reachAgain bound the two attempts of [Reach].
const (
	reachOnce  = 10 * time.Second
	reachAgain = 2 * time.Second
)

// Reach is [CheckReplicaSet] for a command: it gives up after 10 s, with [ErrNoAnswer].
// Before it does, it asks once more. If this machine stood still for longer than that, the
// first attempt has ended without an answer, and the server is there.
func Reach(ctx context.Context, client *mongo.Client) error {
	err := reach(ctx, client, reachOnce)
	if ctx.Err() == nil && (mongo.IsTimeout(err) || errors.Is(err, ErrNoAnswer)) {
		err = reach(ctx, client, reachAgain)
	}
	return err
}

func reach(ctx context.Context, client *mongo.Client, limit time.Duration) error {
	ctx, cancel := Timeout(ctx, limit)
	defer cancel()
	return Explain(ctx, CheckReplicaSet(ctx, client))
}
