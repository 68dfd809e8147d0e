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

// The model of a lease is three variables. Processes take, renew and release at random
// times; each request must match as the model says, and store what the model has.
func TestLeaseFollowsItsModel(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]lease.Fields{
		"flat":           {Until: "until", Holder: "holder", Epoch: "epoch"},
		"embedded":       {Until: "lease.until", Holder: "lease.holder", Epoch: "lease.epoch"},
		"without fences": {Until: "until", Holder: "holder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				type request struct {
					what, who   string
					wait, lasts time.Duration
					// epoch is how many takings ago the process took the lease.
					ago int64
				}
				requests := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) request {
					return request{
						rapid.SampledFrom([]string{"take", "take", "own", "renew", "release", "alive"}).Draw(rt, "what"),
						rapid.SampledFrom([]string{"$one", "two"}).Draw(rt, "who"),
						time.Duration(rapid.IntRange(0, 3).Draw(rt, "wait")) * time.Second,
						time.Duration(rapid.IntRange(1, 4).Draw(rt, "lasts")) * time.Second,
						int64(rapid.IntRange(0, 1).Draw(rt, "ago")),
					}
				}), 1, 15).Draw(rt, "requests")
				synctest.Test(t, func(t *testing.T) {
					c := newDocument(t)
					var holder string
					var epoch int64
					var until time.Time
					for i, r := range requests {
						<-time.After(r.wait)
						now := time.Now()
						free, last := !until.After(now), fields.Epoch == "" || r.ago == 0
						held := bson.E{Key: "other", Value: "kept"}
						if fields.Epoch != "" && epoch > 0 {
							held = fields.Held(epoch - r.ago)
						}
						var matched bool
						var condition bson.E
						var set []bson.E
						switch r.what {
						case "take":
							matched, condition, set = free, fields.Free(), fields.Take(r.who, r.lasts)
						case "own":
							matched, condition, set = free || holder == r.who, fields.FreeFor(r.who), fields.Take(r.who, r.lasts)
						case "renew":
							matched, condition, set = last || epoch == 0, held, []bson.E{fields.Renew(r.lasts)}
						case "release":
							matched, condition, set = last || epoch == 0, held, []bson.E{fields.Release(0)}
						case "alive":
							matched, condition, set = !free, fields.Alive(), []bson.E{{Key: "other", Value: "kept"}}
						}
						if matched && r.what != "alive" {
							if until = now.Add(r.lasts); r.what == "release" {
								until = now
							}
							if r.what == "take" || r.what == "own" {
								holder, epoch = r.who, epoch+1
							}
						}
						got, err := change(t.Context(), c, condition, set...)
						if err != nil || (got != nil) != matched {
							t.Fatalf("request %d, %+v, gave %v, %v; want a match: %t", i, r, got, err, matched)
						}
						if !matched {
							continue
						}
						stored := func(path string) bson.RawValue { return got.Lookup(strings.Split(path, ".")...) }
						end, _ := stored(fields.Until).TimeOK()
						name, _ := stored(fields.Holder).StringValueOK()
						n, _ := stored(fields.Epoch).Int64OK()
						if !end.Equal(until) && !until.IsZero() || name != holder || n != epoch && fields.Epoch != "" {
							t.Fatalf("request %d, %+v, stored %v; want %s, epoch %d, until %v", i, r, got, holder, epoch, until)
						}
					}
				})
				if t.Failed() {
					rt.FailNow()
				}
			})
		})
	}
}
