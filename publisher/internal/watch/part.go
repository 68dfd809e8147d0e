package watch

import (
	"context"
	"time"
)

// overheadBytes is the size of a change without its document: its token, its key and the
// slices that refer to them.
const overheadBytes = 256

// part collects the changes of a chunk that go to the queue as one batch.
type part struct {
	// capacity is the expected number of inserts.
	capacity int
	batch    Batch
	// bytes is the size of the batch in memory.
	bytes int64
	// wall is the server's clock at the last change.
	wall time.Time
}

// passed records that the part contains a change.
func (p *part) passed(c change) {
	if c.time.T != 0 {
		p.batch.Time, p.wall = c.time, c.wall
	}
}

// insert adds an event. changeBytes is the size of the change event, which contains the
// document unless the document was read separately.
func (p *part) insert(c change, document []byte, changeBytes int) {
	if p.batch.Inserts == nil {
		p.batch.Inserts = make([]Insert, 0, p.capacity)
	}
	p.batch.Inserts = append(p.batch.Inserts, Insert{Document: document, DocumentKey: c.documentKey, Token: c.token, Time: c.time})
	p.batch.Token = c.token
	p.bytes += int64(changeBytes) + overheadBytes
	if c.document == nil {
		p.bytes += int64(len(document))
	}
}

// put waits for room in the queue, adds the part, and empties it. The reader's position is
// then after the part.
func (r *reader) put(ctx context.Context, p *part) error {
	r.options.Metrics.read.Add(float64(len(p.batch.Inserts)))
	r.progress.hold()
	err := r.queue.Put(ctx, p.batch, p.bytes)
	r.progress.release(time.Now())
	if err != nil {
		return err
	}
	if !p.wall.IsZero() {
		r.options.Metrics.upTo(p.wall)
	}
	r.position = Position{Token: p.batch.Token}
	*p = part{capacity: p.capacity - len(p.batch.Inserts)}
	return nil
}
