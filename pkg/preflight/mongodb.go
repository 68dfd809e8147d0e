package preflight

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
	// clockOffset is the largest tolerated difference between the clocks of process and
	// server.
	clockOffset = 5 * time.Second
	// shortOplog is the oplog window below which an outage of a weekend loses the history.
	shortOplog = 48 * time.Hour
)

// Reach checks that a store answers and is a replica set or a mongos, and compares the
// clocks. It reports whether further checks of the store are possible.
func (r *Report) Reach(ctx context.Context, client mongox.Client) bool {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	err := mongox.Explain(ctx, mongox.CheckReplicaSet(ctx, client.Client))
	what, at := client.What, fmt.Sprintf("MongoDB at %s", client.Store)
	switch {
	case err == nil:
		r.OK(what, at+" answers")
		r.clock(ctx, client.Client, what)
		return true
	case mongox.Unusable(err):
		r.Fail(what, at+": "+err.Error(), "use a replica set or a sharded cluster of MongoDB 6.0 or later: see docs/mongodb.md")
	case mongox.HasCode(err, mongox.CodeUnauthorized, mongox.CodeAuthenticationFailed, mongox.CodeAtlasError) && !mongox.Transient(err):
		r.Fail(what, at+" refuses the credentials: "+err.Error(), mongox.RemedyCredentials)
	case errors.Is(err, mongox.ErrNotPrimary):
		r.Unreached(what, at+" is not the primary", mongox.RemedyNotPrimary)
	default:
		r.Unreached(what, at+" does not answer: "+err.Error(), "check the host, the network and TLS; the service waits for it")
	}
	return false
}

// Refused adds a check for which MongoDB returned an error. If the user lacks a right, the
// check has failed, and grant is its remedy. Otherwise it can be repeated.
func (r *Report) Refused(check string, err error, grant string) {
	if mongox.HasCode(err, mongox.CodeUnauthorized) {
		r.Fail(check, err.Error(), grant)
		return
	}
	r.Unreached(check, err.Error(), "repeat the check")
}

// clock compares the clocks. Leases use durations and the server's time, so a difference
// breaks no guarantee, but it falsifies lags and ages.
func (r *Report) clock(ctx context.Context, client *mongo.Client, what string) {
	var hello struct {
		LocalTime time.Time `bson:"localTime"`
	}
	begun := time.Now()
	err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	if err != nil || hello.LocalTime.IsZero() {
		return // Reach has reported the error
	}
	took := time.Since(begun)
	offset := begun.Add(took / 2).Sub(hello.LocalTime)
	if offset.Abs() > clockOffset+took {
		r.Warn(what+", clock", fmt.Sprintf("the clock of this process differs by %s from the server's", poll.Duration(offset)), "synchronise the clocks (NTP): lags, ages and --from times are wrong by that much")
		return
	}
	r.OK(what+", clock", fmt.Sprintf("within %s of this process", poll.Duration(offset.Abs())))
}

// Writable checks the rights to insert, update and delete in a database, by requests on a
// collection that change nothing.
func (r *Report) Writable(ctx context.Context, db *mongo.Database, collection, what string) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	c := db.Collection(collection)
	nothing := bson.D{{Key: "_id", Value: "penstock preflight"}}
	_, err := c.UpdateOne(ctx, nothing, bson.D{{Key: "$set", Value: bson.D{{Key: "checked", Value: true}}}})
	if err == nil {
		_, err = c.DeleteOne(ctx, nothing)
	}
	if err == nil {
		err = mayInsert(ctx, c)
	}
	err = mongox.Explain(ctx, err)
	switch {
	case err == nil:
		r.OK(what, fmt.Sprintf("may insert, update and delete in database %s, tried on collection %s", db.Name(), collection))
	case mongox.HasCode(err, mongox.CodeUnauthorized):
		r.Fail(what, err.Error(), "grant the user readWrite on database "+db.Name())
	default:
		r.Unreached(what, err.Error(), "check the replica set's majority; the service waits for it")
	}
}

// mayInsert checks the right to insert into a collection that exists. It skips a missing
// one, because an insert could create it.
func mayInsert(ctx context.Context, c *mongo.Collection) error {
	exists, err := mongox.CollectionExists(ctx, c.Database(), c.Name())
	if err != nil || !exists {
		return err
	}
	// No _id may be an array, so the server refuses this document.
	_, err = c.InsertOne(ctx, bson.D{{Key: "_id", Value: bson.A{}}})
	if answer := (mongo.WriteException{}); errors.As(err, &answer) && answer.WriteConcernError == nil {
		return nil
	}
	return err
}

// Oplog checks how far the oplog reaches back, and that it has the position unless that is
// zero.
func (r *Report) Oplog(ctx context.Context, client *mongo.Client, position, now time.Time) {
	const what = "oplog"
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	begin, err := mongox.ReadOplogBegin(ctx, client)
	err = mongox.Explain(ctx, err)
	at := begin.Time()
	longer := "db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 48}), or the minimum oplog window of Atlas"
	window := now.Sub(at)
	back := "it reaches back " + poll.Duration(window.Round(time.Minute))
	switch {
	case errors.Is(err, mongox.ErrOplogHidden):
		r.Warn(what, err.Error(), "grant the user read on database local, or clusterMonitor, so that checks and alerts can report how far the oplog reaches back; through a mongos, watch the oplogs of the shards instead")
	case err != nil:
		r.Unreached(what, err.Error(), "repeat the check")
	case begin.Complete:
		r.OK(what, back+", to the initiation of the replica set, and has dropped nothing")
	case !position.IsZero() && position.Before(at):
		r.Warn(what, fmt.Sprintf("it begins %s after the checkpoint: the publisher will scan the event store", poll.Duration(at.Sub(position))), "let it scan; then make the oplog longer: "+longer)
	case window < shortOplog:
		r.Warn(what, back, "a longer outage costs a scan of the event store: "+longer)
	default:
		r.OK(what, back)
	}
}
