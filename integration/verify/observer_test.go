package verify

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// A projector can apply an event to a new generation only, because the old one is about to
// be replaced. The rename then shows that event.
func TestObserverSeesEventsThatARenameShows(t *testing.T) {
	t.Parallel()
	client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))
	models := client.Database("models")
	o := NewObserver(models, &workload.Workload{Collections: []string{"orderReadModels"}})
	o.Stored([]workload.Event{{AggregateID: "a", EventID: 1}, {AggregateID: "a", EventID: 2}, {AggregateID: "b", EventID: 1}, {AggregateID: "c", EventID: 1}}, time.Now())

	ctx, stop := context.WithCancel(t.Context())
	opened, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- o.Run(ctx, func() { close(opened) }) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-opened
	insert := func(collection, id string, last int64) {
		t.Helper()
		_, err := models.Collection(collection).InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "lastEventId", Value: last}})
		if err != nil {
			t.Fatal(err)
		}
	}
	insert("orderReadModels", "a", 1)
	insert("orders.generation-2", "a", 2)
	// The stream is in order: with this one, the observer has seen all three.
	insert("orderReadModels", "b", 1)
	await(func() bool { return o.shows("b") })
	if n := o.Projected(); n != 2 {
		t.Errorf("%d events are projected before the rename, not 2", n)
	}
	rename := bson.D{{Key: "renameCollection", Value: "models.orders.generation-2"}, {Key: "to", Value: "models.orderReadModels"}, {Key: "dropTarget", Value: true}}
	if err := client.Database("admin").RunCommand(ctx, rename).Err(); err != nil {
		t.Fatal(err)
	}
	insert("orderReadModels", "c", 1)
	await(func() bool { return o.shows("c") })
	if n := o.Projected(); n != 4 {
		t.Errorf("%d events are projected after the rename, not 4", n)
	}
}

// shows reports whether an event of the aggregate is projected.
func (o *Observer) shows(aggregateID string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.aggregates[aggregateID].projected > 0
}

// await polls until a condition holds.
func await(holds func() bool) {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !holds() {
		<-poll.C
	}
}
