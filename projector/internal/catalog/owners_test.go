package catalog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

func names(topic string, all ...string) []catalog.OwnedName {
	var names []catalog.OwnedName
	for _, name := range all {
		names = append(names, catalog.OwnedName{Kind: "projection", Name: name, Owner: []catalog.OwnerField{
			{Name: "namespace", Value: "bus"}, {Name: "topic", Value: topic},
		}})
	}
	return names
}

func take(t *testing.T, c *mongo.Collection, names []catalog.OwnedName) error {
	t.Helper()
	return catalog.TakeNames(t.Context(), []catalog.Place{{Owners: c, Names: names}}, zerolog.Nop())
}

func TestOtherPipelineIsRefusedAndOwnsNothing(t *testing.T) {
	t.Parallel()
	c := catalog.Owners(server.Database(t))
	for range 2 {
		if err := take(t, c, names("orders", "users", "stock")); err != nil {
			t.Fatal(err)
		}
	}
	err := take(t, c, names("invoices", "new", "users", "stock"))
	if !errors.Is(err, catalog.ErrOwned) ||
		!strings.Contains(err.Error(), `projection "users" (topic: recorded "orders", now "invoices"), projection "stock"`) {
		t.Errorf("refused with %v", err)
	}
	if n, err := c.CountDocuments(t.Context(), bson.D{}); n != 2 || err != nil {
		t.Errorf("%d names have owners, not 2: %v", n, err)
	}
}

func TestReleasedNameHasTheNextOwner(t *testing.T) {
	t.Parallel()
	c := catalog.Owners(server.Database(t))
	if err := take(t, c, names("orders", "users")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(catalog.ReleaseName(t.Context(), c, catalog.ParseName("projection users")), take(t, c, names("invoices", "users"))); err != nil {
		t.Fatal(err)
	}
	if err := take(t, c, names("orders", "users")); !errors.Is(err, catalog.ErrOwned) {
		t.Errorf("the former owner: %v", err)
	}
}

// If two pipelines start at the same time for the first time, each name gets one owner.
func TestNameHasOneOwner(t *testing.T) {
	t.Parallel()
	c := catalog.Owners(server.Database(t))
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() { errs[i] = take(t, c, names([]string{"orders", "invoices"}[i%2], "users")) })
	}
	group.Wait()
	accepted := [2]int{}
	for i, err := range errs {
		switch {
		case err == nil:
			accepted[i%2]++
		case !errors.Is(err, catalog.ErrOwned):
			t.Error(err)
		}
	}
	if accepted != [2]int{4, 0} && accepted != [2]int{0, 4} {
		t.Errorf("accepted %v of four processes of either pipeline", accepted)
	}
}

// A document can be gone when it is read, as after an election that rolls the insert back.
func TestOwnerThatVanishesIsTakenByTheNextAttempt(t *testing.T) {
	t.Parallel()
	c := server.Collection(catalog.Owners(server.Database(t)))
	refused := false
	c.Before = func(_ context.Context, request string) error {
		if request != mongotest.InsertOne || refused {
			return nil
		}
		refused = true
		return mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}}
	}
	for _, want := range []error{catalog.ErrUnsettled, nil} {
		if err := catalog.TakeNames(t.Context(), []catalog.Place{{Owners: c, Names: names("orders", "users")}}, zerolog.Nop()); !errors.Is(err, want) {
			t.Errorf("took the name with %v, want %v", err, want)
		}
	}
}

// A start with many projections must not cost a round trip for each name.
func TestOwnedNamesCostOneRequest(t *testing.T) {
	t.Parallel()
	c := server.Collection(catalog.Owners(server.Database(t)))
	all := []catalog.Place{{Owners: c, Names: names("orders", "users", "stock", "invoices")}}
	if err := catalog.TakeNames(t.Context(), all, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	var requests []string
	c.Before = func(_ context.Context, request string) error {
		requests = append(requests, request)
		return nil
	}
	if err := catalog.TakeNames(t.Context(), all, zerolog.Nop()); err != nil || !slices.Equal(requests, []string{mongotest.Find}) {
		t.Errorf("took owned names with %v: %v", requests, err)
	}
}

// A check returns what Take would change or refuse, and changes nothing.
func TestCheckTakesNothing(t *testing.T) {
	t.Parallel()
	c := catalog.Owners(server.Database(t))
	check := func(names []catalog.OwnedName) (unowned []string, err error) {
		found, err := catalog.CheckNames(t.Context(), []catalog.Place{{Owners: c, Names: names}})
		for _, place := range found {
			for _, name := range place.Names {
				unowned = append(unowned, name.Name)
			}
		}
		return unowned, err
	}
	if unowned, err := check(names("orders", "users", "stock")); err != nil || !slices.Equal(unowned, []string{"users", "stock"}) {
		t.Errorf("before the first owner %v have none: %v", unowned, err)
	}
	if n, err := c.CountDocuments(t.Context(), bson.D{}); n != 0 || err != nil {
		t.Errorf("%d names have owners: %v", n, err)
	}
	if err := take(t, c, names("orders", "users")); err != nil {
		t.Fatal(err)
	}
	if unowned, err := check(names("orders", "users", "stock")); err != nil || !slices.Equal(unowned, []string{"stock"}) {
		t.Errorf("after the first owner %v have none: %v", unowned, err)
	}
	if _, err := check(names("invoices", "users", "stock")); !errors.Is(err, catalog.ErrOwned) {
		t.Fatalf("another pipeline is not refused: %v", err)
	}
	if err := take(t, c, names("orders", "users")); err != nil {
		t.Errorf("the check has changed the owner: %v", err)
	}
}
