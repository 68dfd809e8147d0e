package reconcile_test

import (
	"os"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/reconcile"
)

// server is the MongoDB stand-in of this package's tests.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// An operator who restores the state drops its collections. The lease must be held again
// afterwards, or nothing is reconciled until a restart.
func TestLeaseIsHeldAgainAfterItWasDeleted(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	s := reconcile.NewStore(reconcile.In(db), "shop", "a")
	hold := func() bool {
		t.Helper()
		held, err := s.Hold(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	if !hold() {
		t.Fatal("the first process does not hold the lease")
	}
	if err := db.Collection(reconcile.CollectionName).Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The first beat finds out that the document is gone.
	if hold() {
		t.Error("a lease without a document is held")
	}
	if !hold() {
		t.Error("the lease is not held after its document was deleted")
	}
}
