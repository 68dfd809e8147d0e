package job

import (
	"context"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// Await reads a job at the interval every, and reports each answer, until the job has
// ended. It returns the ended job. Transient errors of the store are retried. If ctx ends
// first, the error is the cause of ctx.
func (s *Store) Await(ctx context.Context, id string, every time.Duration, report func(Job)) (Job, error) {
	for {
		j, err := s.Get(ctx, id)
		switch {
		case ctx.Err() != nil:
			return j, context.Cause(ctx)
		case err != nil && !mongox.Transient(err):
			return j, err
		case err == nil:
			if report != nil {
				report(j)
			}
			if j.State.Ended() {
				return j, nil
			}
		}
		if err := poll.Wait(ctx, every); err != nil {
			return j, err
		}
	}
}
