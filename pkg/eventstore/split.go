package eventstore

import (
	"bytes"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// maxSplit bounds the ranges of a split.
	maxSplit = 1024
	// minRange is the least number of events for which a range is worth the requests that
	// claim it, save its progress and finish it.
	minRange = 256
	// samplesPerRange is how many events are sampled for each range. With 64, each of n
	// ranges has between about 0.7/n and 1.3/n of the events.
	samplesPerRange = 64
	// keysAtMost is the number of events up to which Split reads all index keys instead of
	// a sample. For a sample of 5 % or more, [$sample] reads every document of the
	// collection, and documents are larger than keys.
	//
	// [$sample]: https://www.mongodb.com/docs/manual/reference/operator/aggregation/sample/
	keysAtMost = 20 * samplesPerRange * 64
	// codeSampleFailed is the server's answer if its random cursor keeps finding the
	// same documents.
	codeSampleFailed = 28799
)

// Split gives at most n-1 boundaries, in ascending order, that divide the store into ranges
// of about equal numbers of events, some hundreds at least. The first range ends at the first
// boundary, the last one begins at the last. No boundary is within an aggregate. So an
// aggregate with most of the events is a range by itself, and a store with few aggregates has
// fewer boundaries. n is at most 1,024. An empty store, or one that does not exist, has no
// boundaries.
//
// For a small store, Split reads all index keys. For a large one, the boundaries are the
// quantiles of a random sample. Memory is bounded by n, independent of the size of the
// store.
func (r *Reader) Split(ctx context.Context, n int) ([]Position, error) {
	n = min(n, maxSplit)
	if n < 2 {
		return nil, nil
	}
	_, exists, err := r.index(ctx)
	if err != nil || !exists {
		return nil, err
	}
	count, err := r.Count(ctx)
	if err != nil {
		return nil, err
	}
	if n = min(n, int(count/minRange)); n < 2 {
		return nil, nil
	}
	q := quantiles{max: 2 * samplesPerRange * n}
	if samples := samplesPerRange * n; count > max(keysAtMost, 20*int64(samples)) {
		err := r.sampleKeys(ctx, samples, &q)
		if err == nil {
			return q.boundaries(r, n), nil
		}
		if !mongox.HasCode(err, codeSampleFailed) {
			return nil, err
		}
		q = quantiles{max: q.max}
	}
	if err := r.allKeys(ctx, &q); err != nil {
		return nil, err
	}
	return q.boundaries(r, n), nil
}

// Count is the approximate number of documents, from the collection's statistics. The
// statistics are wrong after an unclean shutdown of the server, and include orphaned
// documents of a sharded collection.
func (r *Reader) Count(ctx context.Context) (int64, error) {
	count, err := r.events.EstimatedDocumentCount(ctx)
	if err != nil {
		return 0, fmt.Errorf("count the events of %s: %w", r.name(), err)
	}
	return count, nil
}

// sampleKeys adds the aggregate ids of random events, in the order of the index. The server
// sorts them, because it knows the collection's collation.
func (r *Reader) sampleKeys(ctx context.Context, samples int, q *quantiles) error {
	cursor, err := r.events.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$sample", Value: bson.D{{Key: "size", Value: samples}}}},
		{{Key: "$project", Value: r.keyProjection()}},
		{{Key: "$sort", Value: r.keys()}},
	}, options.Aggregate().SetBatchSize(batchSize))
	if err != nil {
		return fmt.Errorf("sample %s: %w", r.name(), err)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	return r.addKeys(ctx, cursor, q)
}

// allKeys adds the aggregate ids of all events. It reads only the index.
func (r *Reader) allKeys(ctx context.Context, q *quantiles) error {
	cursor, session, err := r.find(ctx, Position{}, Position{}, bson.Timestamp{}, r.keyProjection())
	if cursor == nil || err != nil {
		return err
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	return r.addKeys(ctx, cursor, q)
}

func (r *Reader) addKeys(ctx context.Context, cursor *mongo.Cursor, q *quantiles) error {
	for cursor.Next(ctx) {
		// Only a valid aggregate id can be a boundary.
		if ev, err := r.reader.ReadPosition(cursor.Current); err == nil {
			q.add(ev.RawAggregateID)
		}
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("read the keys of %s: %w", r.name(), err)
	}
	return nil
}

// quantiles keeps every k-th of the values that are added in ascending order. k starts at 1
// and doubles when the kept values become too many.
type quantiles struct {
	max   int
	every int
	count int
	kept  []bson.RawValue
}

func (q *quantiles) add(v bson.RawValue) {
	q.every = max(q.every, 1)
	q.count++
	if (q.count-1)%q.every != 0 {
		return
	}
	q.kept = append(q.kept, bson.RawValue{Type: v.Type, Value: bytes.Clone(v.Value)})
	if len(q.kept) < q.max {
		return
	}
	half := 0
	for i := 0; i < len(q.kept); i += 2 {
		q.kept[half] = q.kept[i]
		half++
	}
	clear(q.kept[half:])
	q.kept = q.kept[:half]
	q.every *= 2
}

// boundaries are the n-quantiles without duplicates and without the first value, because
// nothing is before it.
func (q *quantiles) boundaries(r *Reader, n int) []Position {
	if len(q.kept) == 0 {
		return nil
	}
	var found []Position
	last := Before(q.kept[0])
	for i := 1; i < n; i++ {
		at := Before(q.kept[i*len(q.kept)/n])
		if order, known := r.Compare(last, at); at.Equal(last) || known && order >= 0 {
			continue
		}
		found = append(found, at)
		last = at
	}
	return found
}
