package job

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Worker does the work of one kind of job. It is called from several goroutines.
//
// Its errors: [Permanent] fails the job, [ErrNotHere] leaves it to other processes, and
// any other error is retried with backoff. If its context ends, or a save tells it to
// stop, it returns that error soon.
type Worker interface {
	// Plan splits a job into ranges and says about how much work they are in all. It may
	// be called again for the same job, after a process that planned it has died.
	Plan(ctx context.Context, j Job) (ranges []Bounds, total int64, err error)
	// Work works on a range from its position on, until its end. Work on the same part
	// of a range may be done twice: after the last save, by another process.
	Work(ctx context.Context, j Job, r Range, p Progress) error
}

// Progress takes what the work on a range has reached.
type Progress interface {
	// Save stores the position from which another process goes on, and the counts of the
	// range since its start, those of [Range.Counts] included. An error that is [ErrLost],
	// [ErrPaused] or [ErrCancelled] says that the work must stop.
	Save(ctx context.Context, position bson.Raw, counts map[string]int64) error
}
