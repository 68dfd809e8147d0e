package eventstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"

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
	// sparseSample is the factor by which a store must be larger than a sample for the server's
	// random cursor. For a sample of 5 % or more, [$sample] reads the whole collection.
	//
	// [$sample]: https://www.mongodb.com/docs/manual/reference/operator/aggregation/sample/
	sparseSample = 20
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
// The boundaries are the quantiles of a random sample of index keys. Memory is bounded by n,
// independent of the size of the store.
func (r *Reader) Split(ctx context.Context, n int) ([]Position, error) {
	n = min(n, maxSplit)
	if n < 2 {
		return nil, nil
	}
	index, exists, err := r.index(ctx)
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
	samples := samplesPerRange * n
	sparse := count > sparseSample*int64(samples)
	keys, err := r.sampleKeys(ctx, samples, index, sparse)
	if sparse && mongox.HasCode(err, codeSampleFailed) {
		keys, err = r.sampleKeys(ctx, samples, index, false)
	}
	if err != nil {
		return nil, err
	}
	return r.quantiles(keys, n), nil
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

// sampleKeys reads the aggregate ids of random events, in the order of the index. The server
// sorts them, because it knows the collection's collation. A sparse sample reads random
// documents. Any other sample reads all keys of the index and no document, because documents are
// larger than keys.
func (r *Reader) sampleKeys(ctx context.Context, samples int, index string, sparse bool) (keys []bson.RawValue, err error) {
	opts := options.Aggregate().SetBatchSize(batchSize)
	stages := mongo.Pipeline{{{Key: "$sample", Value: bson.D{{Key: "size", Value: samples}}}}, {{Key: "$project", Value: r.keyProjection()}}}
	if !sparse {
		slices.Reverse(stages)
		opts.SetHint(index)
	}
	cursor, err := r.events.Aggregate(ctx, append(stages, bson.D{{Key: "$sort", Value: r.keys()}}), opts)
	if err != nil {
		return nil, fmt.Errorf("sample %s: %w", r.name(), err)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for cursor.Next(ctx) {
		// Only a valid aggregate id can be a boundary.
		if ev, err := r.reader.ReadPosition(cursor.Current); err == nil {
			keys = append(keys, bson.RawValue{Type: ev.RawAggregateID.Type, Value: bytes.Clone(ev.RawAggregateID.Value)})
		}
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("read the keys of %s: %w", r.name(), err)
	}
	return keys, nil
}

// quantiles returns the n-quantiles of sorted keys, without duplicates and without the first key,
// because nothing is before it.
func (r *Reader) quantiles(keys []bson.RawValue, n int) []Position {
	if len(keys) == 0 {
		return nil
	}
	var found []Position
	last := Before(keys[0])
	for i := 1; i < n; i++ {
		at := Before(keys[i*len(keys)/n])
		if order, known := r.Compare(last, at); at.Equal(last) || known && order >= 0 {
			continue
		}
		found = append(found, at)
		last = at
	}
	return found
}
