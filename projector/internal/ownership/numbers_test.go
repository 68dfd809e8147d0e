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
	for of, want := range map[[2]string][2]int64{
		{"users", "people"}:  {4, 0}, // guests was not live
		{"guests", "people"}: {5, 2},
		{"guests", "other"}:  {5, 0},
		{"new", "members"}:   {0, 4},
		{"new", "other"}:     {0, 0},
	} {
		own, others, err := numbers.Used(t.Context(), of[0], of[1])
		if err != nil || [2]int64{own, others} != want {
			t.Errorf("%v: used are %d and %d, %v; want %v", of, own, others, err, want)
		}
	}
}
