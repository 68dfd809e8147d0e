package checkpoint_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

func newStore(t *testing.T, c *collection) (*checkpoint.Store, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	return checkpoint.NewStore(c, "events", checkpoint.Options{Registerer: registry}), registry
}

func claim(t *testing.T, s *checkpoint.Store, holder string) *checkpoint.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), holder, pipelineA)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// token returns a resume token in MongoDB's form: a document.
func token(data string) bson.Raw {
	return testkit.Raw(bson.D{{Key: "_data", Value: data}})
}

func TestClaimIssuesEpochs(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	s, _ := newStore(t, c)
	first := claim(t, s, "a")
	if first.Epoch != 1 || !first.Position.IsZero() {
		t.Errorf("first claim is epoch %d at %v, want 1 and nothing", first.Epoch, first.Position)
	}
	if second := claim(t, s, "b"); second.Epoch != 2 {
		t.Errorf("second claim is epoch %d, want 2", second.Epoch)
	}
	document, _ := c.stored()
	if document["holder"] != "b" || document["epoch"] != int64(2) || document["updatedAt"] == nil {
		t.Errorf("document is %v", document)
	}
}

// A checkpoint that was edited by hand can lack its epoch.
func TestClaimOfACheckpointWithoutAnEpoch(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	s, _ := newStore(t, c)
	claim(t, s, "a")
	if _, err := c.UpdateOne(t.Context(), byStream, bson.D{{Key: "$unset", Value: bson.D{{Key: "epoch", Value: ""}}}}); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, s, "b"); got.Epoch != 1 {
		t.Errorf("claim is epoch %d, want 1", got.Epoch)
	}
}

func TestClaimWinsUpsertRaces(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	s, _ := newStore(t, c)
	c.rivals = 3
	if got := claim(t, s, "a"); got.Epoch != 4 {
		t.Errorf("claim is epoch %d, want 4: three rivals were faster", got.Epoch)
	}
	c.rivals = 1000
	if _, err := s.Claim(t.Context(), "a", pipelineA); err == nil || !strings.Contains(err.Error(), "share one lease") {
		t.Errorf("claim returned %v, want it to give up at last", err)
	}
	c.rivals = 0
	c.order(errNetwork, false)
	if _, err := s.Claim(t.Context(), "a", pipelineA); !errors.Is(err, errNetwork) {
		t.Errorf("claim returned %v, want the network's error", err)
	}
}

func TestSaveIsFenced(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	s, registry := newStore(t, c)
	old := claim(t, s, "a")
	if err := old.Save(t.Context(), checkpoint.Position{Token: token("1")}); err != nil {
		t.Fatal(err)
	}
	current := claim(t, s, "b")
	if err := current.Save(t.Context(), checkpoint.Position{Token: token("2")}); err != nil {
		t.Fatal(err)
	}
	if err := old.Save(t.Context(), checkpoint.Position{Token: token("9")}); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("save of an old claim returned %v, want ErrFenced", err)
	}
	if got := claim(t, s, "c").Position; !same(got, checkpoint.Position{Token: token("2")}) {
		t.Errorf("stored position is %v", got)
	}
	for result, want := range map[string]float64{"saved": 2, "fenced": 1, "error": 0} {
		if n := testkit.Metric(t, registry, "penstock_publisher_checkpoint_saves_total", result); n != want {
			t.Errorf("%v saves count as %s, want %v", n, result, want)
		}
	}
}

// A request of an earlier term in the same process must not reach the later term.
func TestSaveIsFencedWithinAProcess(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, newCollection(t))
	old := claim(t, s, "a")
	claim(t, s, "a")
	if err := old.Save(t.Context(), checkpoint.Position{Token: token("1")}); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("save of an old claim returned %v, want ErrFenced", err)
	}
}

// If somebody deletes the checkpoint to start over, epochs begin at 1 again.
func TestSaveIsFencedAcrossADeletion(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	s, _ := newStore(t, c)
	old := claim(t, s, "a")
	c.remove()
	if err := old.Save(t.Context(), checkpoint.Position{Token: token("1")}); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("save without a document returned %v, want ErrFenced", err)
	}
	if anew := claim(t, s, "b"); anew.Epoch != old.Epoch {
		t.Fatalf("epoch is %d, want it to begin anew", anew.Epoch)
	}
	if err := old.Save(t.Context(), checkpoint.Position{Token: token("1")}); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("save in another's epoch of the same number returned %v, want ErrFenced", err)
	}
}

func TestSaveKeepsEveryKindOfPosition(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	s, _ := newStore(t, c)
	atTime := checkpoint.Position{ClusterTime: bson.Timestamp{T: 5, I: 6}}
	atToken := checkpoint.Position{Token: token("1"), ClusterTime: bson.Timestamp{T: 7, I: 8}}
	scanBegun := checkpoint.Position{Scan: checkpoint.Scan{OperationTime: bson.Timestamp{T: 9}}}
	// Save every kind of position after every other: no field of the earlier one may stay.
	positions := []checkpoint.Position{
		atTime, atToken, scanBegun, scanned("u-1", 42), atToken, atTime, scanned("u-2", 1), atTime, scanBegun, atToken,
	}
	for i, p := range positions {
		if err := claim(t, s, "a").Save(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := claim(t, s, "a").Position; !same(got, p) {
			t.Errorf("position %d was saved as %v and read as %v", i, p, got)
		}
	}
	long := scanned("u-5", 3)
	long.Scan.Token = token("1")
	if err := claim(t, s, "a").Save(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, s, "a").Position; !reflect.DeepEqual(got.Scan, long.Scan) {
		t.Errorf("the scan was read as %+v", got.Scan)
	}
	if err := claim(t, s, "a").Save(t.Context(), atToken); err != nil {
		t.Fatal(err)
	}
	// The token of an idle stream has no time of its own.
	idle := checkpoint.Position{Token: token("2")}
	if err := claim(t, s, "a").Save(t.Context(), idle); err != nil {
		t.Fatal(err)
	}
	want := checkpoint.Position{Token: idle.Token, ClusterTime: atToken.ClusterTime}
	if got := claim(t, s, "a").Position; !same(got, want) {
		t.Errorf("idle position is %v, want %v", got, want)
	}
	if err := claim(t, s, "a").Save(t.Context(), checkpoint.Position{}); !errors.Is(err, checkpoint.ErrNoPosition) {
		t.Errorf("save of nothing returned %v, want ErrNoPosition", err)
	}
	if got := claim(t, s, "a").Position; !same(got, want) {
		t.Errorf("position is %v after a save of nothing, want %v", got, want)
	}
}

func TestScanKeepsTheTypeOfItsAggregate(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	s, _ := newStore(t, c)
	for _, id := range []any{"u-1", bson.NewObjectID(), int64(7), int32(7), bson.Binary{Subtype: 4, Data: make([]byte, 16)}} {
		p := checkpoint.Position{Scan: checkpoint.Scan{
			OperationTime: bson.Timestamp{T: 9}, AggregateID: testkit.Value(id), EventID: 1 << 40,
		}}
		w := checkpoint.NewWatermark()
		w.Ack(add(t, w, p)...)
		low, _ := w.Low()
		if err := claim(t, s, "a").Save(t.Context(), low); err != nil {
			t.Fatal(err)
		}
		if got := claim(t, s, "a").Position; !same(got, p) {
			t.Errorf("scan is %v, want %v", got, p)
		}
	}
}

// A save that the server carries out after a later one of the same term must not move the
// checkpoint back.
func TestLateSaveChangesNothing(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	s, _ := newStore(t, c)
	a := claim(t, s, "a")
	late := &delayed{collection: c}
	lateStore := checkpoint.NewStore(late, "events", checkpoint.Options{})
	b := claim(t, lateStore, "b")
	late.on = true
	if err := b.Save(t.Context(), checkpoint.Position{Token: token("1")}); !errors.Is(err, errNetwork) {
		t.Fatal(err)
	}
	late.on = false
	if err := b.Save(t.Context(), checkpoint.Position{Token: token("2")}); err != nil {
		t.Fatal(err)
	}
	late.deliver()
	if got := claim(t, s, "c").Position; !same(got, checkpoint.Position{Token: token("2")}) {
		t.Errorf("position is %v, taken back by a late save", got)
	}
	if a.Epoch != 1 || b.Epoch != 2 {
		t.Errorf("epochs %d and %d", a.Epoch, b.Epoch)
	}
}

func TestMetricNames(t *testing.T) {
	t.Parallel()
	_, registry := newStore(t, newCollection(t))
	if n, err := testutil.GatherAndCount(registry,
		"penstock_publisher_epoch", "penstock_publisher_checkpoint_age_seconds",
		"penstock_publisher_checkpoint_saves_total", "penstock_publisher_checkpoint_window_events",
	); n != 6 || err != nil {
		t.Errorf("%d series, %v, want 6", n, err)
	}
}
