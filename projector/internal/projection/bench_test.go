package projection_test

import (
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// BenchmarkFold measures a handler of five operations and a condition, per event,
// from the loaded document to the finished update.
func BenchmarkFold(b *testing.B) {
	projections := projectiontest.All(b, projectiontest.Orders)
	for _, lines := range []int{0, 1000} {
		document := projectiontest.Order(lines)
		for _, batch := range []int{1, 50} {
			b.Run(fmt.Sprintf("lines=%d/batch=%d", lines, batch), func(b *testing.B) {
				all := projectiontest.OrderEvents(batch)
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
	p := inCode(b, projection.Declaration{Name: "p", Collection: "c", Apply: func(state projection.State, ev *event.Event) (projection.State, error) {
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
	document, all := projectiontest.Order(0), projectiontest.OrderEvents(1)
	b.ReportAllocs()
	for b.Loop() {
		if f := p.Fold(document, all); f.Err != nil {
			b.Fatal(f.Err)
		}
	}
}

// BenchmarkFoldFuncOfManyFields measures a document with 10,000 fields, of which one changes.
func BenchmarkFoldFuncOfManyFields(b *testing.B) {
	document := func(last int64) bson.Raw {
		var d bson.D
		for i := range 10_000 {
			d = append(d, bson.E{Key: fmt.Sprint("field", i), Value: int64(i)})
		}
		raw, err := bson.Marshal(append(d, bson.E{Key: "last", Value: last}))
		if err != nil {
			b.Fatal(err)
		}
		return raw
	}
	next := document(1)
	p := inCode(b, projection.Declaration{Name: "p", Collection: "c", Apply: func(projection.State, *event.Event) (projection.State, error) { return next, nil }})
	stored, all := document(0), projectiontest.OrderEvents(1)
	b.ReportAllocs()
	for b.Loop() {
		if f := p.Fold(stored, all); f.Err != nil {
			b.Fatal(f.Err)
		}
	}
}
