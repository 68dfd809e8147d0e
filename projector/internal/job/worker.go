package job

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Worker does the work of one kind of job. It is called from several goroutines.
//
// A [Permanent] error fails the job, [ErrNotHere] leaves it to other processes, and any
// other error is retried with backoff. If the context ends, or Save says that the work
// must stop, the worker must soon return that error.
type Worker interface {
	// Plan splits a job into ranges and estimates the total amount of work. It may be
	// called again for the same job, after a process that planned it has died.
	Plan(ctx context.Context, j Job) (ranges []bson.Raw, total int64, err error)
	// Work works on a range from its position to its end. Another process may repeat the
	// work that was done after the last save.
	Work(ctx context.Context, j Job, r Range, p Progress) error
}

// Progress saves how far the work on a range has come.
type Progress interface {
	// Save stores the position from which another process would continue, and the counts
	// since the start of the range, including those of [Range.Counts]. [ErrLost]
	// and [ErrCancelled] mean that the work must stop.
	Save(ctx context.Context, position bson.Raw, counts map[string]int64) error
}
