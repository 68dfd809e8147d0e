package leader_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// leases is the collection leader_leases of a database of its own, with faults.
type leases struct {
	*mongotest.Collection
	mu   sync.Mutex
	err  error // the error of every request
	hang bool  // requests wait for their context
	lost bool  // the next write is executed, but its answer is lost
}

var errNetwork = errors.New("connection reset")

func newLeases(t *testing.T) *leases {
	t.Helper()
	l := &leases{Collection: server.Collection(leader.Leases(server.Database(t)))}
	l.Before, l.After = l.before, l.after
	return l
}

func (l *leases) before(ctx context.Context, _ string) error {
	l.mu.Lock()
	err, hang := l.err, l.hang
	l.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (l *leases) after(request string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost && request != mongotest.FindOne {
		l.lost = false
		return errNetwork
	}
	return nil
}

// theLease selects the lease of most tests.
var theLease = bson.D{{Key: "_id", Value: "events"}}

func record(holder string, renewed time.Time) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{
		HolderIdentity:       holder,
		LeaseDurationSeconds: 15,
		AcquireTime:          metav1.NewTime(renewed),
		RenewTime:            metav1.NewTime(renewed),
		LeaderTransitions:    3,
	}
}

// To client-go and to the guard, a cancelled request is a stop.
func TestMongoLockThatGetsNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		collection := newLeases(t)
		lock := leader.NewMongoLock(collection, "events", "a")
		if err := lock.Create(t.Context(), record("a", time.Now())); err != nil {
			t.Fatal(err)
		}
		collection.hang = true
		for name, ask := range map[string]func(context.Context) error{
			"Get":    func(ctx context.Context) error { _, _, err := lock.Get(ctx); return err },
			"Create": func(ctx context.Context) error { return lock.Create(ctx, record("a", time.Now())) },
			"Update": func(ctx context.Context) error { return lock.Update(ctx, record("a", time.Now())) },
		} {
			late, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := ask(late); !errors.Is(err, mongox.ErrNoAnswer) || errors.Is(err, context.Canceled) {
				t.Errorf("%s returned %v, want ErrNoAnswer", name, err)
			}
			cancel()
			stopped, cancel := context.WithCancel(t.Context())
			cancel()
			if err := ask(stopped); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, stopped, returned %v, want it cancelled", name, err)
			}
		}
	})
}

// A lease that somebody has changed names its collection and what to do.
func TestMongoLockThatCannotBeRead(t *testing.T) {
	t.Parallel()
	collection := newLeases(t)
	lock := leader.NewMongoLock(collection, "events", "a")
	if err := lock.Create(t.Context(), record("a", time.Now())); err != nil {
		t.Fatal(err)
	}
	if _, err := collection.UpdateOne(t.Context(), theLease, bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: "one"}}}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := lock.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "lease events in collection leader_leases") || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("got %v", err)
	}
}

func TestMongoLockRoundTrip(t *testing.T) {
	t.Parallel()
	collection := newLeases(t)
	lock := leader.NewMongoLock(collection, "events", "a")
	if lock.Identity() != "a" || lock.Describe() != "leader_leases/events" {
		t.Errorf("identity %q, description %q", lock.Identity(), lock.Describe())
	}
	if _, _, err := lock.Get(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("Get of a missing lease returned %v, want NotFound", err)
	}
	now := time.Date(2026, 11, 21, 10, 0, 0, 5e6, time.UTC)
	if err := lock.Create(t.Context(), record("a", now)); err != nil {
		t.Fatal(err)
	}
	got, first, err := lock.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := record("a", now); got.HolderIdentity != want.HolderIdentity ||
		got.LeaseDurationSeconds != want.LeaseDurationSeconds || got.LeaderTransitions != want.LeaderTransitions ||
		!got.RenewTime.Time.Equal(now) || !got.AcquireTime.Time.Equal(now) {
		t.Errorf("record is %+v, want %+v", *got, want)
	}
	// A renewal within one millisecond must be seen too: candidates watch for changes.
	if err := lock.Update(t.Context(), record("a", now)); err != nil {
		t.Fatal(err)
	}
	_, second, _ := lock.Get(t.Context())
	_, third, _ := lock.Get(t.Context())
	if bytes.Equal(first, second) || !bytes.Equal(second, third) {
		t.Error("the raw bytes of the record did not change with a write, or changed without one")
	}
	document := collection.Stored(t, theLease)
	if document["holder"] != "a" || document["version"] != int64(2) ||
		document["heartbeat"] != bson.NewDateTimeFromTime(now) || document["durationSeconds"] != int32(15) {
		t.Errorf("document is %v", document)
	}
	if err := lock.Update(t.Context(), record("", now)); err != nil {
		t.Fatal(err)
	}
	document = collection.Stored(t, theLease)
	if document["holder"] != "" || document["version"] != int64(3) {
		t.Errorf("released document is %v", document)
	}
}

func TestMongoLockCompareAndSwap(t *testing.T) {
	t.Parallel()
	now := time.Now()
	collection := newLeases(t)
	a := leader.NewMongoLock(collection, "events", "a")
	b := leader.NewMongoLock(collection, "events", "b")
	if err := b.Update(t.Context(), record("b", now)); err == nil {
		t.Error("update without a read succeeded")
	}
	if err := a.Create(t.Context(), record("a", now)); err != nil {
		t.Fatal(err)
	}
	if err := b.Create(t.Context(), record("b", now)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("second create returned %v, want AlreadyExists", err)
	}
	if _, _, err := b.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Update(t.Context(), record("a", now)); err != nil {
		t.Fatal(err)
	}
	if err := b.Update(t.Context(), record("b", now)); !apierrors.IsConflict(err) {
		t.Errorf("update of an overtaken version returned %v, want Conflict", err)
	}

	// A write whose answer is lost leaves a version behind that only a read finds out.
	collection.lost = true
	if err := a.Update(t.Context(), record("a", now)); !errors.Is(err, errNetwork) {
		t.Errorf("update returned %v, want the network's error", err)
	}
	if err := a.Update(t.Context(), record("a", now)); !apierrors.IsConflict(err) {
		t.Errorf("update returned %v, want Conflict", err)
	}
	if _, _, err := a.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Update(t.Context(), record("a", now)); err != nil {
		t.Errorf("update after a read returned %v", err)
	}

	// A lease that was deleted and made anew is another one, at any version.
	version := collection.Stored(t, theLease)["version"]
	collection.Remove(t, theLease)
	if err := b.Create(t.Context(), record("b", now)); err != nil {
		t.Fatal(err)
	}
	collection.Set(t, theLease, bson.D{{Key: "version", Value: version}})
	if err := a.Update(t.Context(), record("a", now)); !apierrors.IsConflict(err) {
		t.Errorf("update of a lease that was made anew returned %v, want Conflict", err)
	}

	collection.err = errNetwork
	for name, err := range map[string]error{
		"create": a.Create(t.Context(), record("a", now)),
		"update": a.Update(t.Context(), record("a", now)),
		"get":    func() error { _, _, err := a.Get(t.Context()); return err }(),
	} {
		if !errors.Is(err, errNetwork) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			t.Errorf("%s returned %v, want the network's error", name, err)
		}
	}
}
