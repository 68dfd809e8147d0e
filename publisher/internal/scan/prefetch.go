package scan

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/semaphore"
)

// page is a number of consecutive documents, with the size that it counts.
type page struct {
	documents []bson.Raw
	bytes     int64
}

// prefetch is the queue between the reader and the handler, bounded in pages and in bytes.
// A page counts until the handler has finished it.
type prefetch struct {
	pages chan page
	limit int64
	room  *semaphore.Weighted
}

// put waits for room and adds a page. A page that is larger than the limit fits if it is
// alone. The error is the cause of ctx.
func (p *prefetch) put(ctx context.Context, documents []bson.Raw) error {
	next := page{documents: documents}
	for _, document := range documents {
		next.bytes += int64(len(document))
	}
	next.bytes = min(next.bytes, p.limit)
	if err := p.room.Acquire(ctx, next.bytes); err != nil {
		return context.Cause(ctx)
	}
	select {
	case p.pages <- next:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
