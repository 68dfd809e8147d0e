package engine_test

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

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
	eng := engine.New(engine.Options{Store: instant{projectiontest.Order(0)}, Parking: newFakeParking(), Repairer: &history{}})
	if err := eng.Set(liveTargets(projectiontest.All(b, projectiontest.Orders))); err != nil {
		b.Fatal(err)
	}
	for _, batch := range []int{1, 50} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			all := projectiontest.OrderEvents(batch)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N/batch + 1 {
				results, err := eng.Process(b.Context(), all, fresh)
				if err != nil || results[batch-1].Outcome != model.Done {
					b.Fatal(results, err)
				}
			}
		})
	}
}
