package park_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

const lease = time.Minute

// newStore makes a store that serves the generations.
func newStore(c *collection, o park.Options, served ...park.Served) *park.Store {
	s := park.NewStore(c, o)
	s.Serve(served)
	return s
}

// newClaims parks aggregate 7 of users as missing, and waits until it is due.
func newClaims(t *testing.T) (*collection, *park.Store) {
	t.Helper()
	c := newCollection(t)
	s := newStore(c, park.Options{}, park.Served{Projection: "users"})
	parkOne(t, s, model.Marker{Unit: seven, Reason: "missing", EventID: 3, Head: 5, Resumes: true, RawAggregateID: bson.RawValue{Type: bson.TypeInt32, Value: []byte{7, 0, 0, 0}}})
	parkOne(t, s, model.Marker{Unit: model.Unit{Projection: "users", AggregateID: "8"}, Reason: "rejected", EventID: 1, Head: 1})
	parkOne(t, s, model.Marker{Unit: model.Unit{Projection: "of another pod", AggregateID: "7"}, Reason: "missing", EventID: 1, Head: 1, Resumes: true})
	if _, ok, err := s.Claim(t.Context(), lease); ok || err != nil {
		t.Errorf("claimed at once, %v", err)
	}
	<-time.After(time.Second)
	return c, s
}

func claim(t *testing.T, s *park.Store) model.Claimed {
	t.Helper()
	claimed, ok, err := s.Claim(t.Context(), lease)
	if err != nil || !ok {
		t.Fatalf("claimed: %v, %v", ok, err)
	}
	return claimed
}

// The clock of this process is ahead of the server's by more than a lease. The claim of
// another process lasts nevertheless.
func TestClaimLastsByTheServersClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s := newClaims(t)
		c.Ahead = -2 * lease
		c.Change(seven, "retryAt", bson.NewDateTimeFromTime(time.Now().Add(c.Ahead+lease)))
		<-time.After(lease - time.Millisecond)
		if _, ok, err := s.Claim(t.Context(), lease); ok || err != nil {
			t.Errorf("claimed during the claim of another process, %v", err)
		}
		<-time.After(time.Millisecond)
		claim(t, s)
	})
}

// TestFinishKeepsTheMarkerOfALaterEvent checks that a marker stays if an event above the
// read model's watermark was acknowledged for it.
func TestFinishKeepsTheMarkerOfALaterEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s := newClaims(t)
		claimed := claim(t, s)
		if err := s.Advance(t.Context(), []model.Head{{Unit: seven, EventID: 6}}); err != nil {
			t.Fatal(err)
		}
		if head, err := s.Finish(t.Context(), claimed, 5, lease); head != 6 || err != nil {
			t.Errorf("head %d, %v", head, err)
		}
		if head, err := s.Finish(t.Context(), claimed, 6, lease); head != park.Finished || err != nil || c.Marker(seven) != nil {
			t.Errorf("head %d, %v, marker %v", head, err, c.Marker(seven))
		}
		if err := s.Advance(t.Context(), []model.Head{{Unit: seven, EventID: 7}}); !errors.Is(err, park.ErrNotParked) {
			t.Errorf("error %v", err)
		}
	})
}

// TestPostponedWaitsDoubleUpToTheirBound checks that the waits double up to their bound.
func TestPostponedWaitsDoubleUpToTheirBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s := newClaims(t)
		for attempts := range 11 {
			limit := min(200*time.Millisecond<<attempts, time.Minute)
			claimed := claim(t, s)
			if err := s.Postpone(t.Context(), claimed, model.Failure{Reason: "unavailable", Error: "no primary", EventID: 4, Attempts: attempts}); err != nil {
				t.Fatal(err)
			}
			m := c.Marker(seven)
			if m["reason"] != "unavailable" || m["error"] != "no primary" || m["eventId"] != int64(4) || m["claim"] != nil {
				t.Errorf("marker is %v", m)
			}
			<-time.After(limit/2 - time.Millisecond)
			if _, ok, _ := s.Claim(t.Context(), lease); ok {
				t.Errorf("claimed before %s", limit/2)
			}
			<-time.After(limit/2 + time.Millisecond)
		}
		claimed := claim(t, s)
		if claimed.Attempts != 10 {
			t.Errorf("%d attempts", claimed.Attempts)
		}
		if err := s.Return(t.Context(), claimed, 0); err != nil {
			t.Error(err)
		}
		claim(t, s)
	})
}

// TestSeldomAttemptsBeginLateAndAreUpToAnHourApart checks the waits of markers whose reason
// ends only when somebody acts.
func TestSeldomAttemptsBeginLateAndAreUpToAnHourApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(newCollection(t), park.Options{}, park.Served{Projection: seven.Projection})
		parkOne(t, s, model.Marker{Unit: seven, Reason: "history", EventID: 3, Head: 4, Resumes: true, Seldom: true})
		limit := 200 * time.Millisecond << 9
		for range 8 {
			<-time.After(limit/2 - time.Millisecond)
			if _, ok, _ := s.Claim(t.Context(), lease); ok {
				t.Errorf("claimed before %s", limit/2)
			}
			<-time.After(limit/2 + time.Millisecond)
			claimed := claim(t, s)
			if err := s.Postpone(t.Context(), claimed, model.Failure{Reason: "history", EventID: 3, Attempts: claimed.Attempts + 1, Seldom: true}); err != nil {
				t.Fatal(err)
			}
			limit = min(2*limit, time.Hour)
		}
	})
}

// Requests of a claim that has expired change nothing after another process has claimed the marker,
// and the claim of that process lasts.
func TestExpiredClaimChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s := newClaims(t)
		late := claim(t, s)
		<-time.After(lease)
		next := claim(t, newStore(c, park.Options{}, park.Served{Projection: "users"}))
		before := c.Marker(seven)
		_, extended := s.Extend(t.Context(), late, lease)
		_, finished := s.Finish(t.Context(), late, 9, lease)
		for _, err := range []error{extended, finished, s.Postpone(t.Context(), late, model.Failure{}), s.Return(t.Context(), late, 0)} {
			if !errors.Is(err, park.ErrClaimLost) {
				t.Errorf("error %v", err)
			}
		}
		if after := c.Marker(seven); !reflect.DeepEqual(before, after) {
			t.Errorf("an expired claim has changed %v to %v", before, after)
		}
		if _, err := s.Extend(t.Context(), next, lease); err != nil {
			t.Errorf("the present claim is lost: %v", err)
		}
	})
}

// claimFilter records the filter of a claim.
type claimFilter struct {
	*collection
	filter any
}

func (c *claimFilter) FindOneAndUpdate(ctx context.Context, filter, update any, opts ...options.Lister[options.FindOneAndUpdateOptions]) *mongo.SingleResult {
	c.filter = filter
	return c.collection.FindOneAndUpdate(ctx, filter, update, opts...)
}

// Markers of a retired projection or of a failed build are due for ever. The index leads past them.
func TestClaimReadsOnlyServedGenerations(t *testing.T) {
	t.Parallel()
	c := &claimFilter{collection: newCollection(t)}
	s := park.NewStore(c, park.Options{})
	s.Serve([]park.Served{{Projection: "users"}, {Projection: "orders", Generation: 2}})
	if err := c.Direct(park.Prepare); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Claim(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Planner struct {
			Winning bson.Raw `bson:"winningPlan"`
		} `bson:"queryPlanner"`
	}
	if err := c.Direct(func(ctx context.Context, direct *mongo.Collection) error {
		find := bson.D{{Key: "find", Value: direct.Name()}, {Key: "filter", Value: c.filter}, {Key: "sort", Value: bson.D{{Key: "retryAt", Value: 1}}}}
		return direct.Database().RunCommand(ctx, bson.D{{Key: "explain", Value: find}}).Decode(&plan)
	}); err != nil {
		t.Fatal(err)
	}
	if text := plan.Planner.Winning.String(); !strings.Contains(text, `"indexName": "_id.projection_1__id.generation_1_retryAt_1","bounded": true`) {
		t.Errorf("the plan of a claim is %s", text)
	}
}

// The claim of a marker that does not resume any more ends.
func TestPermanentMarkerHasNoClaim(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *park.Store){
		"permanent": func(t *testing.T, s *park.Store) {
			t.Helper()
			parkOne(t, s, model.Marker{Unit: seven, Reason: "expression", EventID: 3, Head: 5})
		},
		"discarded": func(t *testing.T, s *park.Store) {
			t.Helper()
			if n, err := s.Discard(t.Context(), []park.Listed{listOne(t, s, park.Filter{Projection: "users", AggregateID: "7"})}, park.Discard{}); err != nil || n != 1 {
				t.Errorf("%d discarded: %v", n, err)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := newClaims(t)
			claimed := claim(t, s)
			end(t, s)
			if _, err := s.Extend(t.Context(), claimed, lease); !errors.Is(err, park.ErrClaimLost) {
				t.Errorf("%s: error %v", name, err)
			}
			<-time.After(2 * lease)
			if _, ok, err := s.Claim(t.Context(), lease); ok || err != nil {
				t.Errorf("%s: claimed %v, %v", name, c.Marker(seven), err)
			}
			if m := c.Marker(seven); m["claim"] != nil || m["retryAt"] != nil {
				t.Errorf("%s: the marker is %v", name, m)
			}
		})
	}
}
