package ownership_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/projector/internal/ownership"
)

func names(topic string, all ...string) []ownership.Name {
	var names []ownership.Name
	for _, name := range all {
		names = append(names, ownership.Name{Kind: "projection", Name: name, Owner: []ownership.Field{
			{Name: "namespace", Value: "bus"}, {Name: "topic", Value: topic},
		}})
	}
	return names
}

func take(t *testing.T, c *mongo.Collection, names []ownership.Name, adopt string) error {
	t.Helper()
	return ownership.Take(t.Context(), []ownership.Place{{Owners: c, Names: names}}, adopt, zerolog.Nop())
}

func TestOtherPipelineIsRefusedAndOwnsNothing(t *testing.T) {
	t.Parallel()
	c := ownership.Owners(server.Database(t))
	for range 2 {
		if err := take(t, c, names("orders", "users", "stock"), ""); err != nil {
			t.Fatal(err)
		}
	}
	err := take(t, c, names("invoices", "new", "users", "stock"), "")
	if !errors.Is(err, ownership.ErrOwned) ||
		!strings.Contains(err.Error(), `projection "users" (topic: recorded "orders", now "invoices"), projection "stock"`) {
		t.Errorf("refused with %v", err)
	}
	if n, err := c.CountDocuments(t.Context(), bson.D{}); n != 2 || err != nil {
		t.Errorf("%d names have owners, not 2: %v", n, err)
	}
}

func TestAdoptionAllowsOneTakeover(t *testing.T) {
	t.Parallel()
	c := ownership.Owners(server.Database(t))
	if err := take(t, c, names("orders", "users"), ""); err != nil {
		t.Fatal(err)
	}
	refusal, _ := errors.AsType[*ownership.ConflictError](take(t, c, names("invoices", "users"), "0123456789ab"))
	if refusal == nil {
		t.Fatal("a wrong code was accepted")
	}
	if err := take(t, c, names("invoices", "users"), refusal.Adoption); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"orders", "third"} {
		if err := take(t, c, names(topic, "users"), refusal.Adoption); !errors.Is(err, ownership.ErrOwned) {
			t.Errorf("topic %s with the used code: %v", topic, err)
		}
	}
}

// losing loses the answer to the first change.
type losing struct {
	*mongo.Collection
	lost bool
}

var errLost = errors.New("connection lost")

func (c *losing) UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	result, err := c.Collection.UpdateOne(ctx, filter, update, opts...)
	if err == nil && !c.lost {
		c.lost = true
		return nil, errLost
	}
	return result, err
}

// A takeover of several names can end after some of them, for example with its process. The
// same code must finish it, and no other name.
func TestInterruptedAdoptionContinuesWithItsCode(t *testing.T) {
	t.Parallel()
	c := ownership.Owners(server.Database(t))
	if err := take(t, c, names("orders", "users", "stock", "carts"), ""); err != nil {
		t.Fatal(err)
	}
	adopted := names("invoices", "users", "stock")
	refusal, _ := errors.AsType[*ownership.ConflictError](take(t, c, adopted, ""))
	if refusal == nil {
		t.Fatal("the names were not refused")
	}
	interrupted := ownership.Take(t.Context(), []ownership.Place{{Owners: &losing{Collection: c}, Names: adopted}}, refusal.Adoption, zerolog.Nop())
	if !errors.Is(interrupted, errLost) {
		t.Fatalf("interrupted with %v", interrupted)
	}
	if err := take(t, c, names("invoices", "users", "stock", "carts"), refusal.Adoption); !errors.Is(err, ownership.ErrOwned) {
		t.Errorf("the code took another name over: %v", err)
	}
	if err := take(t, c, adopted, refusal.Adoption); err != nil {
		t.Errorf("not continued: %v", err)
	}
	if err := take(t, c, adopted, ""); err != nil {
		t.Errorf("not owned: %v", err)
	}
}

// If two pipelines start at the same time for the first time, each name gets one owner.
func TestNameHasOneOwner(t *testing.T) {
	t.Parallel()
	c := ownership.Owners(server.Database(t))
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() { errs[i] = take(t, c, names([]string{"orders", "invoices"}[i%2], "users"), "") })
	}
	group.Wait()
	accepted := [2]int{}
	for i, err := range errs {
		switch {
		case err == nil:
			accepted[i%2]++
		case !errors.Is(err, ownership.ErrOwned):
			t.Error(err)
		}
	}
	if accepted != [2]int{4, 0} && accepted != [2]int{0, 4} {
		t.Errorf("accepted %v of four processes of either pipeline", accepted)
	}
}

// vanishing is a collection whose documents are gone when they are read, as after an election
// that rolls the insert back.
type vanishing struct {
	*mongo.Collection
	times int
}

func (v *vanishing) FindOne(ctx context.Context, filter any, o ...options.Lister[options.FindOneOptions]) *mongo.SingleResult {
	if v.times > 0 {
		v.times--
		return mongo.NewSingleResultFromDocument(bson.D{}, mongo.ErrNoDocuments, nil)
	}
	return v.Collection.FindOne(ctx, filter, o...)
}

func (v *vanishing) InsertOne(ctx context.Context, document any, o ...options.Lister[options.InsertOneOptions]) (*mongo.InsertOneResult, error) {
	if v.times > 0 {
		return nil, mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}}
	}
	return v.Collection.InsertOne(ctx, document, o...)
}

func TestOwnerThatVanishesIsTakenAgain(t *testing.T) {
	t.Parallel()
	for reads, want := range map[int]error{2: nil, 100: ownership.ErrUnsettled} {
		// The first read looks for conflicts.
		c := &vanishing{ownership.Owners(server.Database(t)), reads}
		err := ownership.Take(t.Context(), []ownership.Place{{Owners: c, Names: names("orders", "users")}}, "", zerolog.Nop())
		if !errors.Is(err, want) {
			t.Errorf("%d reads without an owner: %v, want %v", reads, err, want)
		}
	}
}
