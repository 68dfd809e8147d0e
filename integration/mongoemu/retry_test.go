package mongoemu_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// If the reply to a write is lost after the write, the driver sends the write again, and it
// takes effect once.
func TestRetriedWritesTakeEffectOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, write := range map[string]func(*mongo.Collection) error{
		"insert": func(c *mongo.Collection) error {
			r, err := c.InsertMany(ctx, []any{d("_id", 10), d("_id", 11)})
			if err == nil && len(r.InsertedIDs) != 2 {
				return errors.New("not two ids")
			}
			return err
		},
		"update": func(c *mongo.Collection) error {
			r, err := c.UpdateOne(ctx, d("_id", 1), d("$inc", d("n", 1)))
			if err == nil && (r.MatchedCount != 1 || r.ModifiedCount != 1) {
				return errors.New("not one document modified")
			}
			return err
		},
		"upsert": func(c *mongo.Collection) error {
			r, err := c.UpdateOne(ctx, d("_id", 12), d("$inc", d("n", 1)), options.UpdateOne().SetUpsert(true))
			if err == nil && r.UpsertedID != int32(12) {
				return errors.New("the upserted id is lost")
			}
			return err
		},
		"delete": func(c *mongo.Collection) error {
			r, err := c.DeleteOne(ctx, d("k", "x"))
			if err == nil && r.DeletedCount != 1 {
				return errors.New("not one document deleted")
			}
			return err
		},
		"findAndModify": func(c *mongo.Collection) error {
			var doc bson.D
			err := c.FindOneAndUpdate(ctx, d("_id", 1), d("$inc", d("n", 1)), options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&doc)
			if err == nil && get(doc, "n") != int32(1) {
				return errors.New("another answer than the first")
			}
			return err
		},
		"bulk": func(c *mongo.Collection) error {
			r, err := c.BulkWrite(ctx, []mongo.WriteModel{
				mongo.NewUpdateOneModel().SetFilter(d("_id", 1)).SetUpdate(d("$inc", d("n", 1))),
				mongo.NewUpdateOneModel().SetFilter(d("_id", 2)).SetUpdate(d("$inc", d("n", 1))),
			}, options.BulkWrite().SetOrdered(false))
			if err == nil && r.ModifiedCount != 2 {
				return errors.New("not two documents modified")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			once, twice := "", ""
			for _, lost := range []bool{false, true} {
				s, client := start(t, mongoemu.Config{})
				c := client.Database("db").Collection("c")
				must[*mongo.InsertManyResult](t)(c.InsertMany(ctx, []any{d("_id", 1, "k", "x", "n", 0), d("_id", 2, "k", "x", "n", 0)}))
				if lost {
					s.FailCommands(mongoemu.CommandFault{Commands: []string{"insert", "update", "delete", "findAndModify"}, AfterExecution: true, CloseConnection: true})
				}
				before := s.OplogEntries()
				if err := write(c); err != nil {
					t.Fatal(err)
				}
				if s.PendingFaults() != 0 {
					t.Fatal("no command met the injected fault")
				}
				state := relaxed(t, all(t, must[*mongo.Cursor](t)(c.Find(ctx, d(), options.Find().SetSort(d("_id", 1)))), nil))
				if lost {
					twice = state
				} else {
					once = state
				}
				if written := s.OplogEntries() - before; written > 2 {
					t.Errorf("%d entries were written", written)
				}
			}
			if once != twice {
				t.Errorf("after a retry %s\nwithout %s", twice, once)
			}
		})
	}
}

// A retry repeats the statements that have failed, but not those that have succeeded.
func TestRetryByStatement(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	insertOne(t, c, "_id", 2, "n", 0)
	raw := dialRaw(t, s)
	command := d("insert", "c", "documents", bson.A{d("_id", 1), d("_id", 2), d("_id", 3)}, "ordered", true, "lsid", lsid(1), "txnNumber", int64(1))
	first := raw.run("db", command)
	if get(first, "n") != int32(1) || len(get(first, "writeErrors").(bson.A)) != 1 {
		t.Fatalf("%v", first)
	}
	must[*mongo.DeleteResult](t)(c.DeleteOne(t.Context(), d("_id", 2)))
	second := raw.run("db", command)
	if get(second, "n") != int32(3) || get(second, "writeErrors") != nil || len(get(second, "retriedStmtIds").(bson.A)) != 1 {
		t.Errorf("%v", second)
	}
	old := raw.run("db", d("insert", "c", "documents", bson.A{d("_id", 9)}, "lsid", lsid(1), "txnNumber", int64(0)))
	if get(old, "code") != int32(225) {
		t.Errorf("%v", old)
	}
	multi := raw.run("db", d("update", "c", "updates", bson.A{d("q", d(), "u", d("$set", d("a", 1)), "multi", true)}, "lsid", lsid(1), "txnNumber", int64(2)))
	if e, _ := get(multi, "writeErrors").(bson.A); len(e) != 1 || get(e[0].(bson.D), "code") != int32(72) {
		t.Errorf("%v", multi)
	}
	if r := raw.run("db", d("find", "c", "lsid", lsid(1), "txnNumber", int64(3))); get(r, "code") != int32(50768) {
		t.Errorf("%v", r)
	}
	if r := raw.run("db", d("insert", "c", "documents", bson.A{d("_id", 10)}, "txnNumber", int64(3))); get(r, "code") != int32(72) {
		t.Errorf("%v", r)
	}
}

// Errors of a state change have the label that lets a driver retry the write, and the
// topology's version.
func TestLabelsOfInjectedFaults(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	insertOne(t, c, "_id", 1, "n", 0)
	for _, code := range []int32{91, 189, 10107, 11600, 11602, 13436, 89, 262} {
		s.FailCommands(mongoemu.CommandFault{Commands: []string{"update"}, Code: code})
		r, err := c.UpdateOne(t.Context(), d("_id", 1), d("$inc", d("n", 1)))
		if err != nil || r.ModifiedCount != 1 {
			t.Errorf("code %d: %+v, %v", code, r, err)
		}
	}
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"update"}, Code: 91, Labels: []string{}})
	_, err := c.UpdateOne(t.Context(), d("_id", 1), d("$inc", d("n", 1)))
	wantCode(t, err, 91, "by order of a test")
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"update"}, WriteConcernCode: 64})
	_, err = c.UpdateOne(t.Context(), d("_id", 1), d("$inc", d("n", 1)))
	var failed mongo.WriteException
	if !errors.As(err, &failed) || failed.WriteConcernError == nil || failed.WriteConcernError.Code != 64 {
		t.Errorf("%v", err)
	}
}

// An error has the label NoWritesPerformed if the server can be sure: the connection has
// written before, and nothing since.
func TestNoWritesPerformed(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	c := dialRaw(t, s)
	write := func(id int) bson.D {
		return c.run("db", d("insert", "c", "documents", bson.A{d("_id", id)}, "lsid", lsid(1), "txnNumber", int64(id)))
	}
	want := func(r bson.D, labels ...any) {
		t.Helper()
		if got, _ := get(r, "errorLabels").(bson.A); len(got) != len(labels) || !equalValues(got, bson.A(labels)) && len(labels) > 0 {
			t.Errorf("labels %v, want %v: %v", got, labels, r)
		}
	}
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"insert"}, Code: 91})
	want(write(1), "RetryableWriteError")
	want(write(2))
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"insert"}, Code: 91})
	want(write(3), "RetryableWriteError", "NoWritesPerformed")
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"insert"}, Code: 91, AfterExecution: true})
	want(write(4), "RetryableWriteError")
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"insert"}, WriteConcernCode: 91})
	want(write(5), "RetryableWriteError")
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"find"}, Code: 286})
	want(c.run("db", d("find", "c")), "NonResumableChangeStreamError")
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"find"}, Code: 91})
	want(c.run("db", d("find", "c")))
}
