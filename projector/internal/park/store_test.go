package park_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// server is the MongoDB stand-in of this package's tests.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

var seven = model.Unit{Projection: "users", AggregateID: "7"}

// parkOne parks one aggregate.
func parkOne(t *testing.T, s *park.Store, m model.Marker) {
	t.Helper()
	if err := s.Park(t.Context(), []model.Marker{m}); err != nil {
		t.Fatal(err)
	}
}

// count counts the answered requests of one name.
func count(c *collection, name string) *int {
	n := new(int)
	c.After = func(request string) error {
		if request == name {
			*n++
		}
		return nil
	}
	return n
}

// TestNewMarkerReplacesMarkersByTheirReason checks which marker replaces which.
func TestNewMarkerReplacesMarkersByTheirReason(t *testing.T) {
	t.Parallel()
	permanent := model.Marker{Unit: seven, Reason: "expression", EventID: 3, Head: 5}
	resumes := model.Marker{Unit: seven, Reason: "missing", EventID: 3, Head: 4, Resumes: true, RawAggregateID: bson.RawValue{Type: bson.TypeInt32, Value: []byte{7, 0, 0, 0}}}
	for name, test := range map[string]struct {
		order  []model.Marker
		reason string
	}{
		"resumes, then permanent": {[]model.Marker{resumes, permanent}, "expression"},
		"permanent, then resumes": {[]model.Marker{permanent, resumes}, "missing"},
		"resumes twice":           {[]model.Marker{resumes, {Unit: seven, Reason: "unavailable", EventID: 5, Head: 5, Resumes: true}}, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCollection(t)
			s := park.NewStore(c, park.Options{})
			for _, m := range test.order {
				parkOne(t, s, m)
			}
			m := c.Marker(seven)
			if m["reason"] != test.reason || m["head"] != int64(5) || (m["retryAt"] != nil) != (test.reason == "missing") || (m["attempts"] != nil) != (test.reason == "missing") {
				t.Errorf("marker is %v", m)
			}
			if test.reason == "missing" && m["rawAggregateId"] != int32(7) {
				t.Errorf("raw id is %v", m["rawAggregateId"])
			}
			parked, err := s.Parked(t.Context(), []model.Unit{seven})
			if err != nil || parked[0] != (model.Position{EventID: 3, Resumes: test.reason == "missing", Reason: test.reason}) {
				t.Errorf("parked %v, %v", parked, err)
			}
		})
	}
}

// TestManyAggregatesAreParkedInFewRequests checks that the number of requests does not grow
// with the number of aggregates.
func TestManyAggregatesAreParkedInFewRequests(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	writes := count(c, mongotest.BulkWrite)
	s := park.NewStore(c, park.Options{})
	const n = 256
	markers, heads := make([]model.Marker, n), make([]model.Head, n)
	for i := range markers {
		key := model.Unit{Projection: "users", AggregateID: fmt.Sprint(i)}
		markers[i] = model.Marker{Unit: key, Reason: "expression", EventID: 3, Head: 3}
		heads[i] = model.Head{Unit: key, EventID: int64(4 + i)}
	}
	if err := errors.Join(s.Park(t.Context(), markers), s.Advance(t.Context(), heads)); err != nil {
		t.Fatal(err)
	}
	if *writes != 3 {
		t.Errorf("%d requests", *writes)
	}
	for i, h := range heads {
		if m := c.Marker(h.Unit); m["head"] != int64(4+i) {
			t.Errorf("marker is %v", m)
		}
	}
}

func TestAdvanceMovesOnlyParkedAggregates(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	s := park.NewStore(c, park.Options{})
	other := model.Unit{Projection: "users", AggregateID: "8"}
	parkOne(t, s, model.Marker{Unit: other, EventID: 3, Head: 3})
	if err := s.Advance(t.Context(), []model.Head{{Unit: other, EventID: 4}, {Unit: seven, EventID: 4}}); !errors.Is(err, park.ErrNotParked) {
		t.Errorf("error %v", err)
	}
	parkOne(t, s, model.Marker{Unit: seven, EventID: 3, Head: 3})
	for _, head := range []int64{9, 4} {
		if err := s.Advance(t.Context(), []model.Head{{Unit: seven, EventID: head}}); err != nil {
			t.Fatal(err)
		}
	}
	if head := c.Marker(seven)["head"]; head != int64(9) {
		t.Errorf("head is %v", head)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCollection(t)
		c.Before = func(ctx context.Context, command string) error {
			if command == mongotest.Aggregate {
				return mongotest.CheckNoDeadline(ctx)
			}
			return nil
		}
		registry := prometheus.NewRegistry()
		s := newStore(c, park.Options{Reasons: []string{"missing", "rejected"}, Registerer: registry}, park.Served{Projection: "users"}, park.Served{Projection: "users", Generation: 2}, park.Served{Projection: "orders", Generation: 1})
		testkit.Start(t, s.Run)
		shows := func(missing, rejected string) {
			t.Helper()
			want := "# HELP penstock_projector_parked_aggregates Parked aggregates by projection and reason, as in the parked list (missing, conflict, unavailable and history resume by themselves), over all processes: each of them reports the same number.\n" +
				"# TYPE penstock_projector_parked_aggregates gauge\n" +
				"penstock_projector_parked_aggregates{projection=\"orders\",reason=\"missing\"} 0\n" +
				"penstock_projector_parked_aggregates{projection=\"orders\",reason=\"rejected\"} 0\n" +
				"penstock_projector_parked_aggregates{projection=\"users\",reason=\"missing\"} " + missing + "\n" +
				"penstock_projector_parked_aggregates{projection=\"users\",reason=\"rejected\"} " + rejected + "\n"
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "penstock_projector_parked_aggregates"); err != nil {
				t.Error(err)
			}
		}
		<-time.After(2 * time.Second)
		shows("0", "0")
		parkOne(t, s, model.Marker{Unit: seven, EventID: 1, Head: 1, Reason: "missing", Resumes: true})
		parkOne(t, s, model.Marker{Unit: model.Unit{Projection: "users", AggregateID: "8"}, EventID: 1, Head: 1, Reason: "rejected"})
		<-time.After(2 * time.Second)
		shows("1", "1")
		// The served generations of a projection are added up; the others do not count.
		for _, generation := range []int64{2, 3} {
			u := seven
			u.Generation = generation
			parkOne(t, s, model.Marker{Unit: u, EventID: 1, Head: 1, Reason: "missing", Resumes: true})
		}
		<-time.After(2 * time.Second)
		shows("2", "1")
		second := seven
		second.Generation = 2
		c.Delete(second)
		c.Delete(seven)
		<-time.After(time.Minute)
		shows("0", "1")
		s.Serve(nil)
		for _, name := range []string{"penstock_projector_parked_aggregates", "penstock_projector_discarded_aggregates"} {
			if n, err := testutil.GatherAndCount(registry, name); n != 0 || err != nil {
				t.Errorf("%s has %d series of projections that are not served, %v", name, n, err)
			}
		}
	})
}

// Every pod counts all markers, of which there can be as many as aggregates.
func TestSlowCountsAreRare(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		changes     bool
		least, most int
	}{"while markers change": {true, 8, 10}, "without a change": {false, 4, 5}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCollection(t)
			c.Before = func(_ context.Context, command string) error {
				if command == mongotest.Aggregate {
					<-time.After(5 * time.Second)
				}
				return nil
			}
			counts := count(c, mongotest.Aggregate)
			s := newStore(c, park.Options{})
			stop := testkit.Start(t, s.Run)
			for range 1000 {
				<-time.After(time.Second)
				if test.changes {
					s.Serve(nil)
				}
			}
			stop()
			if *counts < test.least || *counts > test.most {
				t.Errorf("%s: %d counts of 5 s in 1000 s", name, *counts)
			}
		})
	}
}

func TestUnreadableMarkersAreLeftOut(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c := newCollection(t)
	s := park.NewStore(c, park.Options{Logger: zerolog.New(&log)})
	parkOne(t, s, model.Marker{Unit: seven, Reason: "expression", EventID: 3, Head: 5})
	c.Set(t, bson.D{{Key: "_id", Value: bson.D{{Key: "projection", Value: "zzz"}, {Key: "aggregateId", Value: 7}}}}, bson.D{{Key: "reason", Value: "missing"}, {Key: "eventId", Value: 1}})
	c.Set(t, of(model.Unit{Projection: "zzz", AggregateID: "8"}), bson.D{{Key: "reason", Value: 7}, {Key: "eventId", Value: 1}})
	if listed, err := s.List(t.Context(), park.Filter{}, 10); err != nil || len(listed) != 1 || listed[0].AggregateID != "7" {
		t.Errorf("listed are %v, %v", listed, err)
	}
	for _, named := range []string{`{\"projection\": \"zzz\",\"aggregateId\": {\"$numberInt\":\"7\"}} of collection parked`, `\"aggregateId\": \"8\",\"generation\": {\"$numberLong\":\"1\"}} of collection parked`} {
		if !strings.Contains(log.String(), named) {
			t.Errorf("the log does not name %s: %s", named, log.String())
		}
	}
	if counts, err := s.Count(t.Context()); err != nil || counts[park.Group{Projection: "users", Generation: 1, Reason: "expression"}] != 1 {
		t.Errorf("the counts are %v, %v", counts, err)
	}
}
