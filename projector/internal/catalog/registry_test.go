package catalog_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

func registry(db *mongo.Database, pod, pipeline string) *catalog.Registry {
	return catalog.NewRegistry(db.Collection(catalog.RegistryName), catalog.Registration{
		Pod: pod, Pipeline: pipeline, Host: "host", StartedAt: by.At,
		Declares: []catalog.Declaration{{Projection: "users", Hash: "$a"}},
	})
}

func TestPodsSeeEachOther(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	one, two, foreign := registry(db, "$one", "p"), registry(db, "two", "p"), registry(db, "three", "q")
	begun := time.Now()
	for _, r := range []*catalog.Registry{one, two, foreign} {
		if err := r.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	two.Confirm(time.Now())
	two.Set([]catalog.Serving{{Projection: "users", Generation: 2, Defers: true}}, []catalog.Pausing{{Projection: "users", Token: "$t"}})
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	alive, err := one.Alive(t.Context())
	if err != nil || len(alive) != 2 {
		t.Fatalf("alive are %+v: %v", alive, err)
	}
	if r := alive[0]; r.Pod != "$one" || r.Host != "host" || r.Declares[0].Hash != "$a" || len(r.Serves) != 0 || r.StartedAt.IsZero() {
		t.Errorf("the first is %+v", r)
	}
	if r := alive[1]; r.Serves[0] != (catalog.Serving{Projection: "users", Generation: 2, Defers: true}) || r.Paused[0].Token != "$t" {
		t.Errorf("the second is %+v", r)
	}
	if until := alive[0].Until; until.Before(begun.Add(catalog.Lease-time.Second)) || until.After(time.Now().Add(catalog.Lease)) {
		t.Errorf("the lease ends %v after the registration began", until.Sub(begun))
	}
	// A delayed renewal changes nothing after a later one.
	if _, err := db.Collection(catalog.RegistryName).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "two"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "beat", Value: 100}}}}); err != nil {
		t.Fatal(err)
	}
	two.Set(nil, nil)
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive, err := one.Alive(t.Context()); err != nil || len(alive) != 2 || len(alive[1].Serves) != 1 {
		t.Errorf("a late renewal has changed the registration to %+v: %v", alive, err)
	}
	if err := two.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive, err := one.Alive(t.Context()); err != nil || len(alive) != 1 {
		t.Errorf("after one has left, alive are %+v: %v", alive, err)
	}
	if err := two.Trusted(); !errors.Is(err, catalog.ErrUntrusted) {
		t.Errorf("the one that has left trusts itself: %v", err)
	}
}

// A process ends the registration and the coordination of a former process of its host, once,
// and of no other.
func TestLeasesOfADeadPodEnd(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	on := func(host, pod string) *catalog.Registry {
		r := catalog.NewRegistry(db.Collection(catalog.RegistryName), catalog.Registration{Pod: pod, Pipeline: "p", Host: host})
		if err := r.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r
	}
	coordinates := func(pod string) error {
		_, err := catalog.NewCoordinatorLease(db.Collection(catalog.RegistryName), "p", pod).Take(t.Context(), time.Hour)
		return err
	}
	on("host", "$dead")
	one, other := on("host", "one"), on("other", "other")
	if err := coordinates("$dead"); err != nil {
		t.Fatal(err)
	}
	if dead, ended, err := other.Succeed(t.Context()); err != nil || len(dead) != 0 || ended != 0 {
		t.Errorf("a process of another host ended %d leases of %v: %v", ended, dead, err)
	}
	var ends []time.Time
	for _, want := range []int{2, 0} {
		if dead, ended, err := one.Succeed(t.Context()); err != nil || !slices.Equal(dead, []string{"$dead"}) || ended != want {
			t.Fatalf("%d leases of %v ended, not %d: %v", ended, dead, want, err)
		}
		if alive, err := one.Alive(t.Context()); err != nil || len(alive) != 2 || alive[0].Pod != "one" {
			t.Fatalf("alive are %+v: %v", alive, err)
		}
		var stored catalog.Registration
		if err := db.Collection(catalog.RegistryName).FindOne(t.Context(), bson.D{{Key: "_id", Value: "$dead"}}).Decode(&stored); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, stored.Until)
	}
	if !ends[0].Equal(ends[1]) {
		t.Errorf("the registration of the dead pod ended at %v, then at %v", ends[0], ends[1])
	}
	if err := coordinates("other"); err != nil {
		t.Errorf("the coordination of the dead pod lasts: %v", err)
	}
}

func TestExpiredRegistrationsAreNotAliveAndAreDeleted(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	r := registry(db, "one", "p")
	now := time.Now()
	for pod, until := range map[string]time.Time{"expired": now.Add(-time.Minute), "forgotten": now.Add(-2 * time.Hour)} {
		if _, err := db.Collection(catalog.RegistryName).InsertOne(t.Context(), bson.D{{Key: "_id", Value: pod}, {Key: "pipeline", Value: "p"}, {Key: "until", Value: until}}); err != nil {
			t.Fatal(err)
		}
	}
	if alive, err := r.Alive(t.Context()); err != nil || len(alive) != 0 {
		t.Errorf("alive are %+v: %v", alive, err)
	}
	if err := r.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []bson.M
	cursor, err := db.Collection(catalog.RegistryName).Find(t.Context(), bson.D{})
	if err == nil {
		err = cursor.All(t.Context(), &left)
	}
	if err != nil || len(left) != 1 || left[0]["_id"] != "expired" {
		t.Errorf("left are %v: %v", left, err)
	}
}

// newHooked returns the collection of a database of its own. It calls before for each
// request, which fails with its error.
func newHooked(t *testing.T, before func() error) *mongotest.Collection {
	t.Helper()
	c := server.Collection(server.Database(t).Collection(catalog.RegistryName))
	c.Before = func(context.Context, string) error { return before() }
	return c
}

// A pod's trust ends before its registration. It is counted from the start of the last
// successful renewal, because the server may have executed it at once and answered late.
func TestTrustEndsBeforeTheRegistration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fails error
		slow := time.Duration(0)
		r := catalog.NewRegistry(newHooked(t, func() error {
			<-time.After(slow)
			return fails
		}), catalog.Registration{Pod: "one"})
		trusts := func(want bool) {
			t.Helper()
			if err := r.Trusted(); (err == nil) != want || err != nil && !errors.Is(err, catalog.ErrUntrusted) {
				t.Errorf("trusted: %v, want %t", err, want)
			}
		}
		trusts(false)
		slow = 9 * time.Second
		if err := r.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		trusts(false) // The pod has not read the catalog yet.
		if r.Confirm(time.Now().Add(-time.Second)) {
			t.Error("Confirm accepted a catalog that was read before the registration")
		}
		r.Confirm(time.Now())
		trusts(true)
		<-time.After(catalog.Lease - 5*time.Second - slow - time.Millisecond)
		trusts(true)
		<-time.After(time.Millisecond)
		trusts(false)
		fails = errors.New("no primary")
		if err := r.Register(t.Context()); !errors.Is(err, fails) {
			t.Errorf("error %v", err)
		}
		trusts(false)
		fails = nil
		if err := r.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		trusts(false)
		r.Confirm(time.Now())
		trusts(true)
	})
}

// A renewal that gets no answer ends while the pod still trusts its registration, and shows the
// condition. The next one can succeed.
func TestRenewalThatHangsEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, hangs := newHooked(t, func() error { return nil }), false
		c.Before = func(ctx context.Context, _ string) error {
			if !hangs {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		r := catalog.NewRegistry(c, catalog.Registration{Pod: "one"})
		if err := r.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Confirm(time.Now())
		hangs = true
		if err := r.Register(t.Context()); !errors.Is(err, mongox.ErrNoAnswer) || len(r.Conditions()) != 1 {
			t.Errorf("error %v, conditions %+v", err, r.Conditions())
		}
		hangs = false
		if err := errors.Join(r.Trusted(), r.Register(t.Context())); err != nil || len(r.Conditions()) != 0 {
			t.Errorf("error %v, conditions %+v", err, r.Conditions())
		}
	})
}
