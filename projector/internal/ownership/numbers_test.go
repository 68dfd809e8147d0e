package ownership_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/ownership"
)

func TestNumbersOfACollectionAreKept(t *testing.T) {
	t.Parallel()
	numbers := ownership.NewNumbers(server.Database(t))
	for _, use := range []struct {
		projection, collection string
		generation             int64
		live                   bool
	}{{"users", "people", 1, true}, {"users", "people", 3, false}, {"users", "people", 2, true}, {"guests", "people", 5, false}, {"users", "members", 4, true}} {
		if err := numbers.Use(t.Context(), use.projection, use.collection, use.generation, use.live); err != nil {
			t.Fatal(err)
		}
	}
	type used struct {
		own, others int64
		last        bool
	}
	for of, want := range map[[2]string]used{
		{"users", "people"}:  {4, 0, true}, // guests was not live
		{"guests", "people"}: {5, 2, false},
		{"guests", "other"}:  {5, 0, true},
		{"users", "members"}: {4, 0, true},
		{"new", "members"}:   {0, 4, false},
		{"new", "other"}:     {0, 0, true},
	} {
		own, others, last, err := numbers.Used(t.Context(), of[0], of[1])
		if got := (used{own, others, last}); err != nil || got != want {
			t.Errorf("%v: %+v, %v; want %+v", of, got, err, want)
		}
	}
}
