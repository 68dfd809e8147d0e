package catalog_test

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// A pipeline has one coordinator at a time, and each has an epoch of its own.
func TestOneCoordinatorAtATime(t *testing.T) {
	t.Parallel()
	c := server.Database(t).Collection(catalog.RegistryName)
	first, second, other := catalog.NewCoordinatorLease(c, "p", "$pod-1"), catalog.NewCoordinatorLease(c, "p", "pod-2"), catalog.NewCoordinatorLease(c, "q", "pod-3")
	takes := func(o *catalog.CoordinatorLease, want int64) {
		t.Helper()
		epoch, err := o.Take(t.Context(), time.Hour)
		if epoch != want || (want == 0) != errors.Is(err, catalog.ErrNotCoordinator) {
			t.Errorf("epoch %d, want %d: %v", epoch, want, err)
		}
	}
	takes(first, 1)
	takes(second, 0)
	takes(other, 1)
	if err := first.Renew(t.Context(), 1, time.Hour); err != nil {
		t.Error(err)
	}
	takes(second, 0)
	if err := first.Release(t.Context(), 1); err != nil {
		t.Error(err)
	}
	takes(second, 2)
	if err := first.Renew(t.Context(), 1, time.Hour); !errors.Is(err, catalog.ErrNotCoordinator) {
		t.Errorf("the former coordinator renewed its lease: %v", err)
	}
}
