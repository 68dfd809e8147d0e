package project_test

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

const fiveOperations = `
projections:
  - name: orders
    collection: orders
    on:
      ItemAdded:
        when: payload.quantity > 0
        set: {customer: payload.customer, updated: timestamp}
        inc: {items: payload.quantity}
        push: {lines: "{'sku': payload.sku, 'quantity': payload.quantity, 'price': payload.price * 2}"}
        max: {most: payload.quantity}
`

func benchmarkEvents(b *testing.B, n int) []*event.Event {
	b.Helper()
	all := make([]*event.Event, n)
	for i := range all {
		all[i] = eventOf(b, int64(i+1), "ItemAdded", fmt.Sprintf(`{"customer":"Jane Doe","sku":"sku-%d","quantity":%d,"price":1999,"note":"a note of some length that nobody reads","address":{"street":"Main St 1","zip":"12345"}}`, i, i%7+1))
	}
	return all
}

// benchmarkDocument returns a read model with ten fields and an array of n documents.
func benchmarkDocument(b *testing.B, n int) bson.Raw {
	b.Helper()
	d := bson.D{{Key: "_id", Value: "a-1"}, {Key: "lastEventId", Value: int64(0)}}
	for i := range 7 {
		d = append(d, bson.E{Key: fmt.Sprintf("field%d", i), Value: "some value"})
	}
	lines := bson.A{}
	for i := range n {
		lines = append(lines, bson.D{{Key: "price", Value: int64(1)}, {Key: "quantity", Value: int64(i)}, {Key: "sku", Value: "sku"}})
	}
	raw, err := bson.Marshal(append(d, bson.E{Key: "items", Value: int64(3)}, bson.E{Key: "lines", Value: lines}))
	if err != nil {
		b.Fatal(err)
	}
	return raw
}

// BenchmarkFold measures a handler of five operations and a condition, per event,
// from the loaded document to the finished update.
func BenchmarkFold(b *testing.B) {
	projections, err := project.Parse("bench.yaml", []byte(fiveOperations))
	if err != nil {
		b.Fatal(err)
	}
	for _, lines := range []int{0, 1000} {
		document := benchmarkDocument(b, lines)
		for _, batch := range []int{1, 50} {
			b.Run(fmt.Sprintf("lines=%d/batch=%d", lines, batch), func(b *testing.B) {
				all := benchmarkEvents(b, batch)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N/batch + 1 {
					if f := projections[0].Fold(document, all); f.Err != nil || f.Update == nil {
						b.Fatal(f.Err)
					}
				}
			})
		}
	}
}

// BenchmarkFoldFunc measures the same in Go with the driver's codecs.
func BenchmarkFoldFunc(b *testing.B) {
	type line struct {
		SKU             string
		Quantity, Price int64
	}
	type order struct {
		Customer    string
		Items, Most int64
		Lines       []line
	}
	p, err := project.New(project.Declaration{Name: "p", Collection: "c", Apply: func(state project.State, ev *event.Event) (project.State, error) {
		var o order
		var added struct {
			Customer, SKU   string
			Quantity, Price int64
		}
		if state != nil {
			if err := bson.Unmarshal(state, &o); err != nil {
				return nil, err
			}
		}
		if err := ev.Payload.Unmarshal(&added); err != nil {
			return nil, err
		}
		o.Customer, o.Items, o.Most = added.Customer, o.Items+added.Quantity, max(o.Most, added.Quantity)
		o.Lines = append(o.Lines, line{added.SKU, added.Quantity, added.Price * 2})
		return bson.Marshal(o)
	}})
	if err != nil {
		b.Fatal(err)
	}
	document, all := benchmarkDocument(b, 0), benchmarkEvents(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if f := p.Fold(document, all); f.Err != nil {
			b.Fatal(f.Err)
		}
	}
}

// instant is a store that answers at once, so that only the engine is measured.
type instant struct{ document bson.Raw }

func (s instant) Load(_ context.Context, units []model.Unit) ([]model.State, error) {
	loaded := make([]model.State, len(units))
	for i := range loaded {
		loaded[i] = model.State{Document: s.document}
	}
	return loaded, nil
}

func (instant) Release([]model.State) {}

func (s instant) Write(_ context.Context, writes []model.Write) ([]model.Written, error) {
	written := make([]model.Written, len(writes))
	for i := range written {
		written[i].Status = model.Applied
	}
	return written, nil
}

// BenchmarkProcess measures the engine per event, without the store.
func BenchmarkProcess(b *testing.B) {
	projections, err := project.Parse("bench.yaml", []byte(fiveOperations))
	if err != nil {
		b.Fatal(err)
	}
	engine, err := project.NewEngine(project.Options{Targets: project.Live(projections), Store: instant{benchmarkDocument(b, 0)}, Parking: newFakeParking()})
	if err != nil {
		b.Fatal(err)
	}
	for _, batch := range []int{1, 50} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			all := benchmarkEvents(b, batch)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N/batch + 1 {
				results, err := engine.Process(b.Context(), all, project.Hold)
				if err != nil || results[batch-1].Verdict != project.Done {
					b.Fatal(results, err)
				}
			}
		})
	}
}
