package job

import (
	"context"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Await asks for a job again and again, and reports each answer, until the job has
// ended. It returns the job as it ended. Transient errors of the store are retried. The
// error is the cause of ctx if that ends first.
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
		if err := backoff.Wait(ctx, every); err != nil {
			return j, err
		}
	}
}
