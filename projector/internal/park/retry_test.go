package park_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

var (
	rawSeven  = bson.RawValue{Type: bson.TypeInt32, Value: []byte{7, 0, 0, 0}}
	permanent = model.Marker{Unit: seven, RawAggregateID: rawSeven, Reason: "expression", Error: "no such key", EventID: 3, Head: 5}
)

// listOne lists the only marker that a filter selects.
func listOne(t *testing.T, s *park.Store, f park.Filter) park.Listed {
	t.Helper()
	found, err := s.List(t.Context(), f, 10)
	if err != nil || len(found) != 1 {
		t.Fatalf("filter %+v lists %+v, %v", f, found, err)
	}
	return found[0]
}

// claimed claims a due marker; nil if none is due.
func claimed(t *testing.T, s *park.Store) *model.Claimed {
	t.Helper()
	c, ok, err := s.Claim(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return nil
	}
	return &c
}

func retry(t *testing.T, s *park.Store, want int64) {
	t.Helper()
	found, err := s.List(t.Context(), park.Filter{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Retry(t.Context(), found); err != nil || n != want {
		t.Errorf("%d markers made claimable, want %d; %v", n, want, err)
	}
}

// wait lets time pass in a synctest bubble.
func wait(d time.Duration) { <-time.After(d) }

func TestRetryMakesAPermanentMarkerClaimable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(newCollection(t), park.Options{}, park.Served{Projection: "users"})
		parkOne(t, s, permanent)
		if claimed(t, s) != nil {
			t.Fatal("a permanent marker is claimable")
		}
		retry(t, s, 1)
		c := claimed(t, s)
		if c == nil || c.AggregateID != "7" || c.Head != 5 || c.Attempts != 0 || c.RawAggregateID.Type != bson.TypeInt32 {
			t.Fatalf("claimed %+v", c)
		}
		// A claimed marker cannot be retried.
		retry(t, s, 0)
		if claimed(t, s) != nil {
			t.Error("the marker is claimed twice")
		}
		// The event fails again: the marker becomes permanent again.
		parkOne(t, s, permanent)
		wait(time.Hour)
		if claimed(t, s) != nil {
			t.Error("a marker that failed again is claimable")
		}
		if l := listOne(t, s, park.Filter{}); l.Retries != 1 || l.RetriedAt == nil || l.RetryAt != nil || l.Claimed || l.Head != 5 {
			t.Errorf("after a retry that failed the marker is %+v", l)
		}
	})
}

func TestRetriesOfOneEventBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(newCollection(t), park.Options{}, park.Served{Projection: "users"})
		parkOne(t, s, permanent)
		for _, pause := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
			retry(t, s, 1)
			if pause > 0 {
				wait(pause - time.Millisecond)
				if claimed(t, s) != nil {
					t.Errorf("claimable before %v", pause)
				}
				wait(time.Millisecond)
			}
			if claimed(t, s) == nil {
				t.Errorf("not claimable after %v", pause)
			}
			parkOne(t, s, permanent)
		}
		// For another event, the waits start again.
		next := permanent
		next.EventID, next.Head = 6, 6
		parkOne(t, s, next)
		retry(t, s, 1)
		if c := claimed(t, s); c == nil {
			t.Errorf("claimed %+v", c)
		}
	})
}

func TestRetriesAreSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(newCollection(t), park.Options{}, park.Served{Projection: "users"})
		for _, id := range []string{"1", "2", "3"} {
			m := permanent
			m.AggregateID = id
			parkOne(t, s, m)
		}
		retry(t, s, 3)
		for i := range 3 {
			if claimed(t, s) == nil || claimed(t, s) != nil {
				t.Errorf("not one marker is due at step %d", i)
			}
			wait(20 * time.Millisecond)
		}
	})
}

// TestRetryIsDueByTheServersClock has a command whose clock is ahead of the server's. A person
// who sees no result asks again.
func TestRetryIsDueByTheServersClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCollection(t)
		c.Ahead = -4 * time.Minute
		s := newStore(c, park.Options{}, park.Served{Projection: "users"})
		for _, id := range []string{"1", "2", "3"} {
			m := permanent
			m.AggregateID = id
			parkOne(t, s, m)
		}
		retry(t, s, 3)
		for range 2 {
			wait(20 * time.Millisecond)
			retry(t, s, 3)
		}
		for i := range 3 {
			if claimed(t, s) == nil {
				t.Errorf("marker %d is not due", i)
			}
		}
	})
}

// A command lists markers, asks for confirmation and changes them. Meanwhile another person can
// decide otherwise about them, and must not be overruled without notice. A marker that was
// parked at another event is another one.
func TestDecisionOfAnotherCommandIsKept(t *testing.T) {
	t.Parallel()
	one := func(m park.Listed) []park.Listed { return []park.Listed{m} }
	discard := func(t *testing.T, s *park.Store, m park.Listed) (int64, error) {
		t.Helper()
		return s.Discard(t.Context(), one(m), park.Discard{Who: "bob", Why: "accepted", At: time.Now()})
	}
	retry := func(t *testing.T, s *park.Store, m park.Listed) (int64, error) {
		t.Helper()
		return s.Retry(t.Context(), one(m))
	}
	again := func(t *testing.T, s *park.Store, m park.Listed) (int64, error) {
		t.Helper()
		if n, err := retry(t, s, m); n != 1 || err != nil {
			t.Errorf("%d retried, %v", n, err)
		}
		parkOne(t, s, permanent)
		wait(time.Second)
		return discard(t, s, listOne(t, s, park.Filter{}))
	}
	another := func(t *testing.T, s *park.Store, _ park.Listed) (int64, error) {
		t.Helper()
		next := permanent
		next.EventID = 4
		parkOne(t, s, next)
		return 1, nil
	}
	type change = func(*testing.T, *park.Store, park.Listed) (int64, error)
	for name, test := range map[string]struct {
		// discarded is set if the marker is listed as discarded.
		discarded    bool
		theirs, mine change
		// stays is set if the marker must be discarded at the end.
		stays bool
	}{
		"a retry of a discarded one":            {false, discard, retry, true},
		"a second discard":                      {false, discard, discard, true},
		"a discard of a retried one":            {false, retry, discard, false},
		"a second retry":                        {false, retry, retry, false},
		"a retry of another event":              {false, another, retry, false},
		"a discard of another event":            {false, another, discard, false},
		"a second retry of a discarded one":     {true, retry, retry, false},
		"a retry of one that is discarded anew": {true, again, retry, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore(newCollection(t), park.Options{}, park.Served{Projection: "users"})
				parkOne(t, s, permanent)
				if test.discarded {
					if n, err := discard(t, s, listOne(t, s, park.Filter{})); n != 1 || err != nil {
						t.Fatalf("%d discarded, %v", n, err)
					}
				}
				before := listOne(t, s, park.Filter{Discarded: test.discarded})
				wait(time.Second)
				if n, err := test.theirs(t, s, before); n != 1 || err != nil {
					t.Fatalf("%d changed by the other command, %v", n, err)
				}
				theirs := listOne(t, s, park.Filter{Discarded: test.stays})
				wait(time.Second)
				if n, err := test.mine(t, s, before); n != 0 || err != nil {
					t.Errorf("%d changed, %v", n, err)
				}
				if after := listOne(t, s, park.Filter{Discarded: test.stays}); !reflect.DeepEqual(after, theirs) {
					t.Errorf("%+v, want %+v", after, theirs)
				}
			})
		})
	}
}

// A discarded aggregate stays parked, so none of its events is lost.
func TestDiscardedMarkerStaysParkedAndIsNotCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		s := newStore(newCollection(t), park.Options{Reasons: []string{"expression", "missing"}, Registerer: registry}, park.Served{Projection: "users"})
		parkOne(t, s, permanent)
		n, err := s.Discard(t.Context(), []park.Listed{listOne(t, s, park.Filter{})}, park.Discard{Who: "ada", Why: "a test aggregate", At: time.Now()})
		if n != 1 || err != nil {
			t.Fatalf("%d discarded, %v", n, err)
		}
		if found, err := s.List(t.Context(), park.Filter{}, 10); err != nil || len(found) > 0 {
			t.Errorf("listed as parked: %+v, %v", found, err)
		}
		if l := listOne(t, s, park.Filter{Discarded: true}); l.Discarded == nil || l.Discarded.Who != "ada" || l.Discarded.Why != "a test aggregate" || l.Discarded.EventID != 3 {
			t.Errorf("listed %+v", l)
		}
		if p, err := s.Parked(t.Context(), []model.Unit{seven}); err != nil || p[0].EventID != 3 || p[0].Resumes {
			t.Errorf("position %+v, %v", p, err)
		}
		if err := s.Advance(t.Context(), []model.Head{{Unit: seven, EventID: 9}}); err != nil {
			t.Error(err)
		}
		stop := testkit.Start(t, s.Run)
		wait(2 * time.Second)
		synctest.Wait()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(
			"# HELP penstock_projector_discarded_aggregates Parked aggregates that an operator has discarded, by projection, over all processes: each of them reports the same number. They are not among the parked ones.\n"+
				"# TYPE penstock_projector_discarded_aggregates gauge\n"+
				"penstock_projector_discarded_aggregates{projection=\"users\"} 1\n"+
				"# HELP penstock_projector_parked_aggregates Parked aggregates by projection and reason, as in the parked list (missing, conflict, unavailable and history resume by themselves), over all processes: each of them reports the same number.\n"+
				"# TYPE penstock_projector_parked_aggregates gauge\n"+
				"penstock_projector_parked_aggregates{projection=\"users\",reason=\"expression\"} 0\n"+
				"penstock_projector_parked_aggregates{projection=\"users\",reason=\"missing\"} 0\n")); err != nil {
			t.Error(err)
		}
		stop()

		// A retry resumes it at any time, with all events that were acknowledged since.
		if n, err := s.Retry(t.Context(), []park.Listed{listOne(t, s, park.Filter{Discarded: true})}); n != 1 || err != nil {
			t.Errorf("%d retried, %v", n, err)
		}
		if c := claimed(t, s); c == nil || c.Head != 9 {
			t.Errorf("claimed %+v", c)
		}
		if l := listOne(t, s, park.Filter{}); l.Discarded != nil {
			t.Errorf("still discarded: %+v", l)
		}
	})
}

// A discard applies to one event only.
func TestDiscardEndsWhenAnotherEventFails(t *testing.T) {
	t.Parallel()
	s := park.NewStore(newCollection(t), park.Options{})
	parkOne(t, s, permanent)
	if n, err := s.Discard(t.Context(), []park.Listed{listOne(t, s, park.Filter{})}, park.Discard{Why: "x", At: time.Now()}); n != 1 || err != nil {
		t.Fatalf("%d discarded, %v", n, err)
	}
	next := permanent
	next.EventID, next.Head = 6, 6
	parkOne(t, s, next)
	if l := listOne(t, s, park.Filter{}); l.Discarded != nil || l.EventID != 6 {
		t.Errorf("listed %+v", l)
	}
}
