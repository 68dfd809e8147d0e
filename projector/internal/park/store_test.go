package park_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collection keeps markers in memory, as far as a store needs it to.
type collection struct {
	mu      sync.Mutex
	markers map[park.Key]bson.M
	finds   int
	err     error
}

func newCollection() *collection { return &collection{markers: make(map[park.Key]bson.M)} }

// decode reads a command back, as the server would.
func decode(from, to any) {
	raw, err := bson.Marshal(from)
	if err == nil {
		err = bson.Unmarshal(raw, to)
	}
	if err != nil {
		panic(err)
	}
}

func (c *collection) Find(_ context.Context, filter any, _ ...options.Lister[options.FindOptions]) (*mongo.Cursor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finds++
	var f struct {
		ID struct {
			In []park.Key `bson:"$in"`
		} `bson:"_id"`
	}
	decode(filter, &f)
	var found []any
	for _, key := range f.ID.In {
		if c.markers[key] != nil {
			found = append(found, bson.D{{Key: "_id", Value: key}, {Key: "eventId", Value: c.markers[key]["eventId"]}})
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	return mongo.NewCursorFromDocuments(found, nil, nil)
}

func (c *collection) UpdateOne(_ context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	var f struct {
		ID      park.Key `bson:"_id"`
		EventID *int64   `bson:"eventId"`
	}
	decode(filter, &f)
	var u struct {
		Set bson.M           `bson:"$set"`
		Max map[string]int64 `bson:"$max"`
	}
	decode(update, &u)
	marker := c.markers[f.ID]
	if marker == nil || f.EventID != nil && marker["eventId"] != *f.EventID {
		if len(opts) == 0 {
			return &mongo.UpdateResult{}, nil
		}
		if marker == nil {
			marker = bson.M{}
			c.markers[f.ID] = marker
		}
	}
	for k, v := range u.Set {
		marker[k] = v
	}
	head, _ := marker["head"].(int64)
	marker["head"] = max(head, u.Max["head"])
	return &mongo.UpdateResult{MatchedCount: 1}, nil
}

func (c *collection) Aggregate(ctx context.Context, _ any, _ ...options.Lister[options.AggregateOptions]) (*mongo.Cursor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	if err := mongoxtest.CheckUndated(ctx); err != nil {
		return nil, err
	}
	counts := make(map[string]int64)
	for key := range c.markers {
		counts[key.Projection]++
	}
	var groups []any
	for projection, n := range counts {
		groups = append(groups, bson.D{{Key: "_id", Value: projection}, {Key: "count", Value: n}})
	}
	return mongo.NewCursorFromDocuments(groups, nil, nil)
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	c := newCollection()
	s := park.NewStore(c, park.Options{})
	key := park.Key{Projection: "users", AggregateID: "7"}
	if err := s.Park(t.Context(), park.Marker{Key: key, Reason: "expression", Error: "no such key: " + strings.Repeat("ä", 5000), EventID: 3, Head: 5}); err != nil {
		t.Fatal(err)
	}
	first := c.markers[key]
	if first["reason"] != "expression" || first["eventId"] != int64(3) || first["head"] != int64(5) || first["messageId"] != "7/3" || first["parkedAt"] == nil {
		t.Errorf("marker is %v", first)
	}
	if text, _ := first["error"].(string); len(text) > 4096 || !strings.HasSuffix(text, "ä") {
		t.Errorf("error has %d bytes and ends with %q", len(text), text[len(text)-4:])
	}

	if err := s.Park(t.Context(), park.Marker{Key: key, Reason: "function", EventID: 3, Head: 4}); err != nil {
		t.Fatal(err)
	}
	if m := c.markers[key]; m["reason"] != "expression" || m["head"] != int64(5) {
		t.Errorf("parked twice at the same event, the marker is %v", m)
	}
	if err := s.Park(t.Context(), park.Marker{Key: key, Reason: "rejected", EventID: 6, Head: 6}); err != nil {
		t.Fatal(err)
	}
	if m := c.markers[key]; m["reason"] != "rejected" || m["eventId"] != int64(6) || m["head"] != int64(6) {
		t.Errorf("parked at a later event, the marker is %v", m)
	}
}

func TestParked(t *testing.T) {
	t.Parallel()
	c := newCollection()
	s := park.NewStore(c, park.Options{})
	keys := make([]park.Key, 2500)
	for i := range keys {
		keys[i] = park.Key{Projection: "users", AggregateID: string(rune('a' + i))}
	}
	for _, i := range []int{0, 999, 1000, 2499} {
		if err := s.Park(t.Context(), park.Marker{Key: keys[i], EventID: int64(i) + 3, Head: 5000}); err != nil {
			t.Fatal(err)
		}
	}
	parked, err := s.Parked(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range parked {
		want := int64(0)
		if i == 0 || i == 999 || i == 1000 || i == 2499 {
			want = int64(i) + 3
		}
		if at != want {
			t.Errorf("key %d is parked at %d, want %d", i, at, want)
		}
	}
	if c.finds != 3 {
		t.Errorf("%d queries", c.finds)
	}
	c.err = errors.New("no primary")
	if _, err := s.Parked(t.Context(), keys[:1]); !errors.Is(err, c.err) {
		t.Errorf("error %v", err)
	}
}

func TestAdvanceOnlyWhatIsParked(t *testing.T) {
	t.Parallel()
	c := newCollection()
	s := park.NewStore(c, park.Options{})
	key := park.Key{Projection: "users", AggregateID: "7"}
	if err := s.Advance(t.Context(), key, 4); !errors.Is(err, park.ErrNotParked) {
		t.Errorf("error %v", err)
	}
	if err := s.Park(t.Context(), park.Marker{Key: key, EventID: 3, Head: 3}); err != nil {
		t.Fatal(err)
	}
	for _, head := range []int64{9, 4} {
		if err := s.Advance(t.Context(), key, head); err != nil {
			t.Fatal(err)
		}
	}
	if head := c.markers[key]["head"]; head != int64(9) {
		t.Errorf("head is %v", head)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCollection()
		registry := prometheus.NewRegistry()
		s := park.NewStore(c, park.Options{Projections: []string{"users", "orders"}, Registerer: registry})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		shows := func(users string) {
			t.Helper()
			want := "# HELP penstock_projector_parked_aggregates Parked aggregates by projection, over all processes: each of them reports the same number.\n" +
				"# TYPE penstock_projector_parked_aggregates gauge\n" +
				"penstock_projector_parked_aggregates{projection=\"orders\"} 0\n" +
				"penstock_projector_parked_aggregates{projection=\"users\"} " + users + "\n"
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		shows("0")
		for _, id := range []string{"1", "2"} {
			if err := s.Park(t.Context(), park.Marker{Key: park.Key{Projection: "users", AggregateID: id}, EventID: 1, Head: 1}); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(2 * time.Second)
		shows("2")
		c.mu.Lock()
		delete(c.markers, park.Key{Projection: "users", AggregateID: "1"})
		c.mu.Unlock()
		<-time.After(time.Minute)
		shows("1")
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
