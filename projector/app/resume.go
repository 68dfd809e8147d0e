package app

import (
	"context"

	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/resume"
)

// replayer adapts the engine to the resumer.
type replayer struct {
	engine *engine.Engine
}

var _ resume.Replayer = replayer{}

func (r replayer) Replay(ctx context.Context, m model.Claimed, head int64, final bool) (resume.Progress, error) {
	resumed, err := r.engine.Resume(ctx, engine.Suspended{
		Projection: m.Projection, Generation: m.Generation, AggregateID: m.AggregateID, RawAggregateID: m.RawAggregateID,
		Head: head, Final: final, Failed: m.Failed,
	})
	if err != nil {
		return resume.Progress{}, err
	}
	p := resume.Progress{Watermark: resumed.Watermark}
	if cause := resumed.Cause; cause != nil {
		p.Permanent = !cause.Reason.Resumes()
		p.Failure = &model.Failure{Reason: string(cause.Reason), Error: cause.Err.Error(), EventID: cause.EventID, Seldom: cause.Reason.Seldom()}
	}
	return p, nil
}

// reasons returns the engine's reasons, which the parked list counts by.
func reasons() []string {
	all := projection.Reasons()
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = string(r)
	}
	return names
}
