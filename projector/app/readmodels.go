package app

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/tracing"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// readModels is the engine's store of read models.
type readModels struct {
	*readmodel.Loader
	*readmodel.Writer
}

// tracedReadModels is the store of read models for live events.
type tracedReadModels struct {
	readModels
	tracer *tracing.Tracer
}

var (
	_ engine.Store   = readModels{}
	_ engine.Store   = tracedReadModels{}
	_ engine.Parking = (*park.Store)(nil)
)

// Write is [readmodel.Writer.Write], with a span for each write of a traced event.
func (r tracedReadModels) Write(ctx context.Context, writes []model.Write) ([]model.Written, error) {
	events := tracing.EventsOf(ctx)
	if events == nil {
		return r.Writer.Write(ctx, writes)
	}
	spans := make([][]tracing.Span, len(writes))
	for i := range writes {
		w := &writes[i]
		spans[i] = r.tracer.Write(ctx, events, &tracing.Write{
			Projection: w.Projection, Collection: w.Collection, AggregateID: w.AggregateID,
			Generation: max(w.Generation, model.FirstGeneration), From: w.From, To: w.To,
		})
		w.Traced = tracing.Contexts(spans[i])
	}
	written, err := r.Writer.Write(ctx, writes)
	for i := range spans {
		result := model.Written{Err: err}
		if i < len(written) {
			result = written[i]
		}
		for _, span := range spans[i] {
			span.EndWith(result.Status.String(), result.Err)
		}
	}
	return written, err
}
