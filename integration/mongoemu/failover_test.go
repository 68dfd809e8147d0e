package mongoemu_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

func isolate(t *testing.T, s *mongoemu.Server) {
	t.Helper()
	if err := s.Isolate(); err != nil {
		t.Fatal(err)
	}
}

func failover(t *testing.T, s *mongoemu.Server) {
	t.Helper()
	if err := s.Failover(); err != nil {
		t.Fatal(err)
	}
}

// interrupted reports whether a failover has ended a write. The driver repeats it only once.
func interrupted(err error) bool {
	var labeled mongo.LabeledError
	var cleared interface{ Retryable() bool } // another operation has closed the connections
	return errors.As(err, &cleared) || errors.As(err, &labeled) && (labeled.HasErrorLabel("NetworkError") || labeled.HasErrorLabel("RetryableWriteError"))
}

// newestIDs returns the ids that the primary has.
func newestIDs(t *testing.T, c *mongo.Collection) []any {
	t.Helper()
	cursor, err := c.Find(t.Context(), d(), options.Find().SetSort(d("_id", 1)))
	var ids []any
	for _, doc := range all(t, cursor, err) {
		ids = append(ids, get(doc, "_id"))
	}
	return ids
}

func TestDocumentsAreThoseOfAMajority(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	insertOne(t, c, "_id", 2)
	insertOne(t, c, "_id", 1)
	isolate(t, s)
	insertOne(t, c.Clone(options.Collection().SetWriteConcern(writeconcern.W1())), "_id", 3)
	ids := func() (ids []int32) {
		for _, d := range s.Documents("db", "c") {
			ids = append(ids, d.Lookup("_id").Int32())
		}
		return ids
	}
	if got := ids(); !slices.Equal(got, []int32{2, 1}) {
		t.Errorf("a majority has %v", got)
	}
	s.Rejoin()
	if got := ids(); !slices.Equal(got, []int32{2, 1, 3}) {
		t.Errorf("after the return of the secondaries, a majority has %v", got)
	}
	if got := s.Documents("db", "other"); got != nil {
		t.Errorf("a collection that does not exist has %v", got)
	}
}

// A write that no majority has is visible on the primary only, and is gone after a failover.
// A write that waits for a majority is repeated.
func TestFailoverRollsBackWhatNoMajorityHas(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	primary := c.Clone(options.Collection().SetWriteConcern(writeconcern.W1()))
	majority := c.Clone(options.Collection().SetReadConcern(readconcern.Majority()))
	insertOne(t, c, "_id", 1)
	stream := must[*mongo.ChangeStream](t)(c.Watch(ctx, mongo.Pipeline{}))
	defer func() { _ = stream.Close(context.Background()) }()

	isolate(t, s)
	insertOne(t, primary, "_id", 2)
	if n := len(newestIDs(t, c)); n != 2 {
		t.Errorf("the primary has %d documents, want 2", n)
	}
	if n := len(newestIDs(t, majority)); n != 1 {
		t.Errorf("a majority has %d documents, want 1", n)
	}
	if stream.TryNext(ctx) {
		t.Errorf("the stream shows what no majority has: %v", stream.Current)
	}
	// The document of this insert exists on the primary. Its error waits for a majority too.
	answered := make(chan error, 2)
	for _, id := range []int{2, 3} {
		go func() {
			_, err := c.InsertOne(ctx, d("_id", id))
			for interrupted(err) {
				_, err = c.InsertOne(ctx, d("_id", id))
			}
			answered <- err
		}()
	}
	select {
	case err := <-answered:
		t.Errorf("an insert was answered before a majority had it: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	failover(t, s)
	for range 2 {
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
	}
	if ids := newestIDs(t, majority); len(ids) != 3 {
		t.Fatalf("the new primary has %v, want 1, 2 and 3", ids)
	}
	for range 2 {
		if !stream.Next(ctx) {
			t.Fatal(stream.Err())
		}
	}
	if stream.TryNext(ctx) {
		t.Errorf("the stream shows a write twice, or one that was rolled back: %v", stream.Current)
	}
}

// A client whose session is causally consistent sends the operation time of its last reply. After
// a read at majority, that must not be the time of a write that a failover may roll back.
func TestOperationTimeOfMajorityReadsIsThatOfAMajority(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	insertOne(t, client.Database("db").Collection("c"), "_id", 1)
	insertOne(t, client.Database("db").Collection("c"), "_id", 2)
	c := dialRaw(t, s)
	majority := d("level", "majority")
	find := d("find", "c", "batchSize", 1, "readConcern", majority)
	cursor := get(c.run("db", find), "cursor", "id")
	changes := get(c.run("db", d("aggregate", "c", "pipeline", bson.A{d("$changeStream", d())}, "cursor", d())), "cursor", "id")
	committed := get(c.run("db", find), "operationTime").(bson.Timestamp)
	isolate(t, s)
	written := get(c.run("db", d("insert", "c", "documents", bson.A{d("_id", 3)}, "writeConcern", d("w", 1))), "operationTime").(bson.Timestamp)
	if !written.After(committed) {
		t.Fatalf("the write has the operation time %v, want one after %v", written, committed)
	}
	for name, command := range map[string]bson.D{
		"find": find, "getMore": d("getMore", cursor, "collection", "c"), "aggregate": d("aggregate", "c", "pipeline", bson.A{}, "cursor", d(), "readConcern", majority),
		"getMore of a change stream": d("getMore", changes, "collection", "c", "maxTimeMS", 1),
	} {
		if reply := c.run("db", command); get(reply, "ok") != 1.0 || get(reply, "operationTime") != committed {
			t.Errorf("%s: got %v, want the operation time %v", name, reply, committed)
		}
	}
	if got := get(c.run("db", d("find", "c")), "operationTime"); got != written {
		t.Errorf("a local read has the operation time %v, want %v", got, written)
	}
}

// If the secondaries come back, nothing is lost.
func TestRejoinAcknowledgesWhatWaits(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	insertOne(t, c, "_id", 1)
	isolate(t, s)
	err := client.Database("db").RunCommand(ctx, d("insert", "c", "documents", bson.A{d("_id", 2)}, "writeConcern", d("w", "majority", "wtimeout", 20))).Err()
	var refused mongo.WriteException
	var command mongo.CommandError
	switch {
	case errors.As(err, &refused) && refused.WriteConcernError != nil && refused.WriteConcernError.Code == 64:
	case errors.As(err, &command) && command.Code == 64:
	default:
		t.Errorf("%v, want WriteConcernTimeout", err)
	}
	s.Rejoin()
	insertOne(t, c, "_id", 3)
	if ids := newestIDs(t, c.Clone(options.Collection().SetReadConcern(readconcern.Majority()))); len(ids) != 3 {
		t.Errorf("a majority has %v, want 1, 2 and 3", ids)
	}
}

// A transaction that is open at a failover has to be repeated. So has one whose commit no
// majority has.
func TestFailoverEndsTransactions(t *testing.T) {
	t.Parallel()
	for name, isolated := range map[string]bool{"open": false, "committed on the primary": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := start(t, mongoemu.Config{})
			c := client.Database("db").Collection("c")
			insertOne(t, c, "_id", 1)
			in, session := begin(t, client)
			must[*mongo.InsertOneResult](t)(c.InsertOne(in, d("_id", 2)))
			commit := func() error {
				err := session.CommitTransaction(t.Context())
				for interrupted(err) {
					err = session.CommitTransaction(t.Context())
				}
				return err
			}
			committed := make(chan error, 1)
			if isolated {
				isolate(t, s)
				go func() { committed <- commit() }()
				for len(newestIDs(t, c)) == 1 {
					select {
					case err := <-committed:
						t.Fatalf("committed before a majority had it: %v", err)
					case <-time.After(time.Millisecond):
					}
				}
				failover(t, s)
			} else {
				failover(t, s)
				committed <- commit()
			}
			err := <-committed
			var answer mongo.CommandError
			if !errors.As(err, &answer) || answer.Code != 251 || !answer.HasErrorLabel("TransientTransactionError") {
				t.Errorf("%v, want NoSuchTransaction with TransientTransactionError", err)
			}
			if ids := newestIDs(t, c); len(ids) != 1 {
				t.Errorf("the new primary has %v, want 1", ids)
			}
		})
	}
}
