package reconcile_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
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
	s := reconcile.NewStore(reconcile.In(db), "shop", "readmodels", "a")
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

// of returns the store of a process.
func of(c mongox.Collection, holder string) *reconcile.Store {
	return reconcile.NewStore(c, "shop", "readmodels", holder)
}

func hold(t *testing.T, s *reconcile.Store, want bool) {
	t.Helper()
	if held, err := s.Hold(t.Context(), time.Minute); err != nil || held != want {
		t.Errorf("the lease is held: %t, want %t: %v", held, want, err)
	}
}

func abandon(t *testing.T, s *reconcile.Store, want int) {
	t.Helper()
	if ended, err := s.Abandon(t.Context(), []string{"unknown", "$dead"}); err != nil || ended != want {
		t.Errorf("%d leases ended, not %d: %v", ended, want, err)
	}
}

// Another process takes the lease of a dead one soon. After that, requests of the dead process
// change nothing, and the lease of the living process lasts.
func TestLeaseOfADeadReconcilerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := server.Collection(reconcile.In(server.Database(t)))
		dead, living := of(c, "$dead"), of(c, "living")
		abandon(t, living, 0)
		hold(t, dead, true)
		hold(t, living, false)
		abandon(t, living, 1)
		abandon(t, living, 0)
		hold(t, dead, false)
		testkit.Pass(time.Second)
		hold(t, living, true)
		abandon(t, living, 0)
		hold(t, dead, false)
		if err := dead.Release(t.Context()); err != nil {
			t.Error(err)
		}
		testkit.Pass(59 * time.Second)
		hold(t, of(c, "third"), false)
	})
}

// A lease whose holders die again and again is free later each time, but no later than if it
// had expired. After a holder has renewed it, the waits start again.
func TestLeaseWhoseHoldersDieIsFreeLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := server.Collection(reconcile.In(server.Database(t)))
		s := of(c, "$dead")
		hold(t, s, true)
		die := func(limit time.Duration) {
			t.Helper()
			abandon(t, s, 1)
			testkit.Pass(limit/2 - time.Millisecond)
			hold(t, s, false)
			testkit.Pass(limit/2 + time.Millisecond)
			hold(t, s, true)
		}
		for _, limit := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			die(limit)
		}
		hold(t, s, true)
		die(time.Second)
		testkit.Pass(time.Minute - 200*time.Millisecond)
		abandon(t, s, 1)
		testkit.Pass(200 * time.Millisecond)
		hold(t, s, true)
	})
}

// After PENSTOCK_READMODELS_DATABASE has changed, the read models of the former database must not
// stand for those of the new one, nor may a sweep of them keep another one from beginning.
func TestSweepOfAnotherDatabaseSaysNothing(t *testing.T) {
	t.Parallel()
	c := server.Collection(reconcile.In(server.Database(t)))
	former, present := of(c, "a"), reconcile.NewStore(c, "shop", "other", "b")
	orders := reconcile.Projection{Name: "orders", Generation: 1}
	begin := func(s *reconcile.Store, id string, read reconcile.Record) {
		t.Helper()
		if begun, err := s.Begin(t.Context(), orders, id, read); err != nil || !begun {
			t.Fatalf("sweep %s has begun: %t, %v", id, begun, err)
		}
	}
	read := func(s *reconcile.Store) reconcile.Record {
		t.Helper()
		records, err := s.Read(t.Context())
		if err != nil || len(records) != 1 {
			t.Fatalf("the records are %+v: %v", records, err)
		}
		return records[0]
	}
	begin(former, "first", reconcile.Record{Projection: orders})
	if err := former.End(t.Context(), orders, "first", true, time.Hour); err != nil {
		t.Fatal(err)
	}
	begin(former, "second", read(former))
	if got, want := read(present), (reconcile.Record{Projection: orders, Due: true}); got != want {
		t.Errorf("the record in the other database is %+v, not %+v", got, want)
	}
	begin(present, "third", read(present))
	if got := read(present); got.Sweep != "third" || !got.Through.IsZero() {
		t.Errorf("the record after the sweep has begun is %+v", got)
	}
}
