package history

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// parts are the real event store, projection and read models.
type parts struct {
	database   *mongo.Database
	events     *mongo.Collection
	reader     *eventstore.Reader
	projection *projection.Projection
	*readmodel.Loader
	*readmodel.Writer
	*readmodel.Repairer
	generation int64
}

const ordersYAML = `
projections:
  - name: orders
    collection: orders
    aggregateType: Order
    on:
      OrderPlaced:
        set: {customer: payload.customer, status: "'placed'", total: "0.0"}
      ItemAdded:
        inc: {items: payload.quantity, total: payload.price * double(payload.quantity)}
        push: {lines: "{'sku': payload.sku, 'quantity': payload.quantity}"}
      OrderPaid:
        set: {status: "'paid'", paidAt: timestamp}
`

// newParts opens a new database with the index of the event store.
func newParts(tb testing.TB, generation int64) *parts {
	tb.Helper()
	database := server.Database(tb)
	p := &parts{database: database, events: database.Collection("events"), generation: generation, Repairer: readmodel.NewRepairer(database)}
	mongotest.IndexEvents(tb, p.events)
	p.reader = eventstore.NewReader(p.events, event.DefaultFields(), zerolog.Nop())
	p.projection = projectiontest.One(tb, ordersYAML)
	p.Loader = readmodel.NewLoader(database, readmodel.LoaderOptions{})
	p.Writer = readmodel.NewWriter(database, readmodel.WriterOptions{})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{p.Loader.Run, p.Writer.Run} {
		running.Go(func() { _ = run(ctx) })
	}
	tb.Cleanup(func() {
		stop()
		running.Wait()
	})
	return p
}

func (p *parts) target() *engine.Target {
	return &engine.Target{Projection: p.projection, Generation: p.generation, Collection: "orders.generation-2"}
}

func (p *parts) targets() []engine.Target { return []engine.Target{*p.target()} }

func (p *parts) Parked(_ context.Context, units []model.Unit) ([]model.Position, error) {
	return make([]model.Position, len(units)), nil
}

func (p *parts) Park(_ context.Context, markers []model.Marker) error {
	return fmt.Errorf("parked: %+v", markers[0])
}

func (p *parts) Resume(_ context.Context, s engine.Suspended) (engine.Resumed, error) {
	return engine.Resumed{}, fmt.Errorf("Resume was called for %s up to %d, want no call", s.AggregateID, s.Head)
}

// load stores n aggregates of four events each.
func (p *parts) load(tb testing.TB, n int) {
	tb.Helper()
	const perInsert = 2000
	var work sync.WaitGroup
	parts := make(chan int)
	errs := make(chan error, 4)
	for range 4 {
		work.Go(func() {
			for from := range parts {
				var documents []any
				for i := from; i < min(from+perInsert, n); i++ {
					documents = append(documents, order(i)...)
				}
				if _, err := p.events.InsertMany(tb.Context(), documents, options.InsertMany().SetOrdered(false)); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for from := 0; from < n; from += perInsert {
		parts <- from
	}
	close(parts)
	work.Wait()
	close(errs)
	if err := errors.Join(<-errs); err != nil {
		tb.Fatal(err)
	}
}

// order is a history of four events.
func order(i int) []any {
	// Events that were stored one after another are not next to each other in the index.
	id := fmt.Sprintf("order-%08x", uint32(i)*2654435761)
	doc := func(n int64, kind string, payload bson.D) bson.D {
		return bson.D{
			{Key: "aggregateId", Value: id}, {Key: "aggregateType", Value: "Order"}, {Key: "eventId", Value: n}, {Key: "eventType", Value: kind},
			{Key: "timestamp", Value: bson.DateTime(1_700_000_000_000 + int64(i))}, {Key: "payload", Value: payload},
			{Key: "metadata", Value: bson.D{{Key: "user", Value: "u-1"}, {Key: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}},
		}
	}
	item := func(n int64) bson.D {
		return doc(n, "ItemAdded", bson.D{{Key: "sku", Value: fmt.Sprintf("sku-%04d", (i+int(n))%1000)}, {Key: "quantity", Value: n}, {Key: "price", Value: 9.5}})
	}
	return []any{
		doc(1, "OrderPlaced", bson.D{{Key: "customer", Value: fmt.Sprintf("c-%06d", i%5000)}}),
		item(2), item(3),
		doc(4, "OrderPaid", bson.D{{Key: "method", Value: "card"}}),
	}
}
