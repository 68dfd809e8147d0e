package lease_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/lease"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

// server is the MongoDB stand-in of this package's tests.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// document has the lease of all tests.
var document = bson.E{Key: "_id", Value: "a"}

// newDocument creates the document without a lease, in a collection of its own.
func newDocument(tb testing.TB) *mongotest.Collection {
	tb.Helper()
	c := server.Collection(server.Database(tb).Collection("leases"))
	if err := c.Direct(func(ctx context.Context, c *mongo.Collection) error {
		_, err := c.InsertOne(ctx, bson.D{document, {Key: "other", Value: "kept"}})
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	return c
}

// change updates the document if the condition holds, and returns it; nil if not.
func change(ctx context.Context, c *mongotest.Collection, condition bson.E, set ...bson.E) (bson.Raw, error) {
	changed, err := c.FindOneAndUpdate(ctx, bson.D{document, condition}, bson.A{bson.D{{Key: "$set", Value: bson.D(set)}}},
		options.FindOneAndUpdate().SetReturnDocument(options.After)).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return changed, err
}

// request is a request of a process.
type request struct {
	what, who   string
	wait, lasts time.Duration
	// ago is how many takings ago the process took the lease.
	ago int64
}

func drawRequest(rt *rapid.T) request {
	seconds := func(name string, low, high int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(rt, name)) * time.Second
	}
	return request{
		rapid.SampledFrom([]string{"take", "take", "renew", "release", "alive"}).Draw(rt, "what"),
		rapid.SampledFrom([]string{"$one", "two"}).Draw(rt, "who"),
		seconds("wait", 0, 3), seconds("lasts", 1, 4), rapid.Int64Range(0, 1).Draw(rt, "ago"),
	}
}

// model is a lease.
type model struct {
	holder string
	epoch  int64
	until  time.Time
}

// take changes the model by a request, and returns the request's condition and changes, and
// whether the condition must hold.
func (m *model) take(r request, f lease.Fields) (condition bson.E, set bson.D, holds bool) {
	free, own := !m.until.After(time.Now()), m.epoch > 0 && r.ago == 0
	switch r.what {
	case "take":
		condition, set, holds = f.Free(), f.Take(r.who, r.lasts), free
	case "renew":
		condition, set, holds = f.Held(m.epoch-r.ago), bson.D{f.Renew(r.lasts)}, own
	case "release":
		condition, set, holds, r.lasts = f.Held(m.epoch-r.ago), bson.D{f.Release(0)}, own, 0
	case "alive":
		return f.Alive(), bson.D{{Key: "other", Value: "kept"}}, !free
	}
	if holds {
		m.until = time.Now().Add(r.lasts)
		if r.what == "take" {
			m.holder, m.epoch = r.who, m.epoch+1
		}
	}
	return condition, set, holds
}

// Processes take, renew and release at random times. Each request must match if it does in
// the model, and store what the model has.
func TestLeaseFollowsItsModel(t *testing.T) {
	t.Parallel()
	for _, parent := range []string{"", "lease."} {
		f := lease.Fields{Until: parent + "until", Holder: parent + "holder", Epoch: parent + "epoch"}
		rapid.Check(t, func(rt *rapid.T) {
			requests := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 15).Draw(rt, "requests")
			synctest.Test(t, func(t *testing.T) {
				c, m := newDocument(t), model{}
				for i, r := range requests {
					pass(r.wait)
					condition, set, holds := m.take(r, f)
					got, err := change(t.Context(), c, condition, set...)
					if err != nil || (got != nil) != holds {
						t.Fatalf("request %d, %+v, gave %v, %v; want a match: %t", i, r, got, err, holds)
					}
					if !holds {
						continue
					}
					stored := func(path string) bson.RawValue { return got.Lookup(strings.Split(path, ".")...) }
					if stored(f.Holder).StringValue() != m.holder || stored(f.Epoch).Int64() != m.epoch || !stored(f.Until).Time().Equal(m.until) {
						t.Fatalf("request %d, %+v, stored %v; want %+v", i, r, got, m)
					}
				}
			})
			if t.Failed() {
				rt.FailNow()
			}
		})
	}
}
