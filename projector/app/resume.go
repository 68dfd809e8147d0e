package app

import (
	"context"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/project"
	"github.com/penstock-cdc/penstock/projector/internal/resume"
)

// claims adapts the parked list to the resumer.
type claims struct {
	store *park.Store
}

var _ resume.Claims = claims{}

func (c claims) Claim(ctx context.Context, lease time.Duration) (resume.Marker, bool, error) {
	claimed, ok, err := c.store.Claim(ctx, lease)
	return resume.Marker(claimed), ok, err
}

func (c claims) Extend(ctx context.Context, m resume.Marker, lease time.Duration) (int64, error) {
	return c.store.Extend(ctx, park.Claimed(m), lease)
}

func (c claims) Finish(ctx context.Context, m resume.Marker, watermark int64, lease time.Duration) (int64, error) {
	return c.store.Finish(ctx, park.Claimed(m), watermark, lease)
}

func (c claims) Postpone(ctx context.Context, m resume.Marker, f resume.Failure) error {
	return c.store.Postpone(ctx, park.Claimed(m), park.Failure(f))
}

func (c claims) Return(ctx context.Context, m resume.Marker) error {
	return c.store.Return(ctx, park.Claimed(m))
}

// replayer adapts the engine to the resumer.
type replayer struct {
	engine *project.Engine
}

var _ resume.Replayer = replayer{}

func (r replayer) Replay(ctx context.Context, m resume.Marker, head int64, final bool) (resume.Progress, error) {
	resumed, err := r.engine.Resume(ctx, project.Suspended{
		Projection: m.Projection, Generation: m.Generation, AggregateID: m.AggregateID, RawAggregateID: m.RawAggregateID,
		Head: head, Final: final, Failed: m.Failed,
	})
	if err != nil {
		return resume.Progress{}, err
	}
	p := resume.Progress{Watermark: resumed.Watermark}
	if cause := resumed.Cause; cause != nil {
		p.Permanent = !cause.Reason.Resumes()
		p.Failure = &resume.Failure{Reason: string(cause.Reason), Error: cause.Err.Error(), EventID: cause.EventID, Seldom: cause.Reason.Seldom()}
	}
	return p, nil
}

// reasons returns the engine's reasons, which the parked list counts by.
func reasons() []string {
	all := project.Reasons()
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = string(r)
	}
	return names
}
