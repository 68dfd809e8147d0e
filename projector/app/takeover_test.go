package app

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// write stores documents that no projector writes.
func (c *cluster) write(collection string, ids ...any) {
	c.t.Helper()
	for _, id := range ids {
		if _, err := c.database.Collection(collection).InsertOne(c.t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "owner", Value: "application"}}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// left counts the documents that no projector has written.
func (c *cluster) left(collection string) int64 {
	c.t.Helper()
	n, err := c.database.Collection(collection).CountDocuments(c.t.Context(), bson.D{{Key: "owner", Value: "application"}})
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// loseState deletes the collections of the state.
func (c *cluster) loseState() {
	c.t.Helper()
	for _, lost := range []string{"projections", "projectors", "jobs", "job_ranges", "parked"} {
		if err := c.database.Collection(lost).Drop(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestCollectionOfAnApplicationIsRefused checks that a projection neither adopts nor
// replaces a collection in which an application keeps documents of its own, whether the
// event store has events or not.
func TestCollectionOfAnApplicationIsRefused(t *testing.T) {
	t.Parallel()
	for _, events := range []int{0, 20} {
		c := newCluster(t)
		if events > 0 {
			c.store(names(events)...)
		}
		c.write("visits", "one", 2, bson.NewObjectID(), "four", 5.5)
		_, err := c.tryPod(0, visits(t, 1))
		if !errors.Is(err, readmodel.ErrLayout) || !strings.Contains(err.Error(), "visits has 5 documents that no projector has written") {
			t.Errorf("with %d events: %v", events, err)
		}
		if e := c.entry(); e != nil {
			t.Errorf("with %d events the catalog has %+v", events, e)
		}
		if n := c.left("visits"); n != 5 {
			t.Errorf("with %d events, %d documents of the application are left", events, n)
		}
	}
}

// TestPromotionKeepsTheDocumentsOfAnApplication checks that a rebuild does not drop
// documents that an application has written into the read model's collection later. The
// promotion waits and says so, and continues when they are gone.
func TestPromotionKeepsTheDocumentsOfAnApplication(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(20)...))
	c.write("visits", "one", 2)
	p.stop()
	c.pod(0, visits(t, 2))
	c.await("the promotion waits", func(e *generation.Entry) bool {
		return e.Building != nil && e.Building.State == generation.Verifying && strings.Contains(e.Building.Reason, "visits has 2 documents that no projector has written")
	})
	if n := c.left("visits"); n != 2 {
		t.Errorf("%d documents of the application are left", n)
	}
}

// suspended is the write of a pod that was suspended after it had folded an aggregate's
// first event: it continues when the function is called.
func (c *cluster) suspended(aggregate string, p *Projection, number int64, document bson.D) func() {
	c.t.Helper()
	unit := model.Unit{Projection: p.Name(), Collection: p.Collection(), AggregateID: aggregate, Generation: number}
	return func() {
		c.t.Helper()
		w := readmodel.NewWriter(c.database, readmodel.WriterOptions{})
		done := make(chan error, 1)
		ctx := c.t.Context()
		go func() { done <- w.Run(ctx) }()
		written, err := w.Write(ctx, []model.Write{{Unit: unit, Kind: model.Create, To: 1, Document: bsontest.Raw(document)}})
		if err != nil || written[0].Status != model.Applied {
			c.t.Errorf("the suspended pod writes %+v, %v", written, err)
		}
	}
}

// TestSuspendedPodOfAFormerNameIsFoldedOver checks that a projection that was renamed is
// right although a pod of its former name continues in the middle of an insert, whatever
// numbers the former name has used.
func TestSuspendedPodOfAFormerNameIsFoldedOver(t *testing.T) {
	t.Parallel()
	for _, generations := range []int{1, 2} {
		c := newCluster(t)
		former := visits(t, 1)
		p := c.pod(0, former)
		p.deliver(c.store(names(5)...))
		for i := range generations - 1 {
			p.stop()
			former = visits(t, i+10)
			p = c.pod(0, former)
			c.live(int64(i + 2))
		}
		resume := c.suspended("late", former, int64(generations), bson.D{{Key: "n", Value: int64(77)}, {Key: "factor", Value: int64(77)}})
		p.stop()
		renamed := c.pod(0, counting(t, "guests", "visits", 3))
		if err := c.change(func(e *generation.Entry) (*generation.Entry, error) {
			return generation.Retire(e, generation.Author{At: time.Now()})
		}); err != nil {
			t.Fatal(err)
		}
		c.awaitOf("guests", "live", func(e *generation.Entry) bool { return e.Live != nil })
		resume()
		renamed.deliver(c.store("late"))
		renamed.deliver(c.store(append(names(5), "late")...))
		c.right(3)
	}
}

// TestReadModelsAreAdoptedAfterTheLossOfTheState checks that the read models of a lost
// catalog are adopted with the generation that they have, and that no number is used again.
func TestReadModelsAreAdoptedAfterTheLossOfTheState(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(20)...))
	for factor := 2; factor <= 3; factor++ {
		p.stop()
		p = c.pod(0, visits(t, factor))
		c.live(int64(factor))
	}
	// Another generation has been started, written and given up.
	if err := c.change(func(e *generation.Entry) (*generation.Entry, error) {
		return generation.Start(e, e.Pipeline, generation.Declared{Name: e.Name, Definition: e.Live.Definition}, 5, generation.Author{At: time.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	c.live(6)
	p.stop()
	c.loseState()
	p = c.pod(0, visits(t, 3))
	if e := c.entry(); e.Live == nil || e.Live.Generation != 6 || e.Generations != 6 || e.Building != nil {
		t.Fatalf("adopted as %+v", e)
	}
	p.deliver(c.store(append(names(20), "new")...))
	c.right(3)
	p.stop()
	fresh := c.pod(0, visits(t, 4))
	c.live(7)
	fresh.deliver(c.store(names(3)...))
	c.right(4)
}

// TestProjectionsExchangeTheirCollections checks that two and three projections that each
// take the collection of another one do not wait for each other.
func TestProjectionsExchangeTheirCollections(t *testing.T) {
	t.Parallel()
	for n := 2; n <= 3; n++ {
		c := newCluster(t)
		var before, after []*Projection
		for i := range n {
			before = append(before, counting(t, fmt.Sprint("p", i), fmt.Sprint("c", i), i+1))
			after = append(after, counting(t, fmt.Sprint("p", i), fmt.Sprint("c", (i+1)%n), i+1))
		}
		p := c.pod(0, before...)
		p.deliver(c.store(names(20)...))
		p.stop()
		p = c.pod(0, after...)
		for i, projection := range after {
			c.awaitOf(projection.Name(), "live in the other collection", func(e *generation.Entry) bool {
				return e.Live != nil && e.Live.Collection == projection.Collection() && e.Building == nil
			})
			if wrong := c.wrong(projection.Collection(), int64(i+1)); wrong != "" {
				t.Errorf("%d projections: %s: %s", n, projection.Name(), wrong)
			}
		}
		p.deliver(c.store(names(20)...))
		for i, projection := range after {
			if wrong := c.wrong(projection.Collection(), int64(i+1)); wrong != "" {
				t.Errorf("%d projections, after more events: %s: %s", n, projection.Name(), wrong)
			}
		}
	}
}

// TestLostStateOfATakeoverDoesNotMixProjections checks that a projection that was about to
// take a collection over does not adopt the documents of the former owner after the loss of
// the state database, although it has used a number itself.
func TestLostStateOfATakeoverDoesNotMixProjections(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(20)...))
	p.stop()
	p = c.pod(0, counting(t, "guests", "visits", 3))
	c.awaitOf("guests", "the takeover waits for the former owner", func(e *generation.Entry) bool {
		return e.Building != nil && strings.Contains(e.Building.Reason, "belongs to projection visits")
	})
	p.stop()
	c.loseState()
	c.pod(0, counting(t, "guests", "visits", 3))
	c.awaitOf("guests", "live", func(e *generation.Entry) bool { return e.Live != nil && e.Building == nil })
	c.right(3)
}
