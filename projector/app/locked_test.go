package app

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// TestReadersDoNotWaitForAPromotion promotes a generation while a transaction, such as an
// application's, holds the live collection. The promotion waits, but those who read and
// write the collection do not queue behind it for longer than one attempt.
func TestReadersDoNotWaitForAPromotion(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(3)...))
	session, err := c.database.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.database.Collection("visits").FindOne(mongo.NewSessionContext(t.Context(), session), bson.D{}).Err(); err != nil {
		t.Fatal(err)
	}
	longest := c.readLive()
	c.pod(0, visits(t, 2))
	c.await("the reason why the promotion waits", func(e *catalog.Entry) bool {
		return e.Building != nil && e.Building.State == catalog.Promoting && strings.Contains(e.Building.Reason, "a transaction or another command holds the collection")
	})
	if err := session.AbortTransaction(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.live(2)
	if wait := longest(); wait >= 2*time.Second {
		t.Errorf("a reader waited for %v", wait)
	}
	c.right(2)
}

// readLive reads a live read model again and again until the result is called, which gives
// the longest time that a read took.
func (c *cluster) readLive() (longest func() time.Duration) {
	ctx, stop := context.WithCancel(c.t.Context())
	var reading sync.WaitGroup
	var slowest time.Duration
	tick := time.NewTicker(5 * time.Millisecond)
	c.t.Cleanup(tick.Stop)
	reading.Go(func() {
		for ctx.Err() == nil {
			<-tick.C
			begun := time.Now()
			err := c.database.Collection("visits").FindOne(ctx, bson.D{{Key: "_id", Value: "a-000"}}).Err()
			if err != nil && ctx.Err() == nil {
				c.t.Errorf("a reader of the live read model: %v", err)
			}
			slowest = max(slowest, time.Since(begun))
		}
	})
	end := sync.OnceFunc(func() {
		stop()
		reading.Wait()
	})
	c.t.Cleanup(end)
	return func() time.Duration {
		end()
		return slowest
	}
}
