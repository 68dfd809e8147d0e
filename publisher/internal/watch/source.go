package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

const (
	// maxAwait is how long the server keeps a request that has nothing to answer:
	// the pace of the post-batch tokens while nothing happens.
	maxAwait = time.Second
	// batchSize bounds the changes of a reply, which 16 MiB bound anyway: enough to
	// make the round trips few, and small enough to spread the work.
	batchSize = 4096
	// keysBatchSize bounds the changes of a reply of keys alone, each of which costs
	// a lookup.
	keysBatchSize = 64

	// chunkChanges and chunkBytes bound a chunk.
	chunkChanges = 512
	chunkBytes   = 256 << 10
	// slabBytes bounds what one event that waits for its acknowledgement keeps of its
	// neighbours that do not.
	slabBytes = 4 << 10
)

// Collection is the [Source] on a real collection.
type Collection struct {
	events *mongo.Collection
}

var _ Source = (*Collection)(nil)

// NewCollection makes the source of the events collection. It reads from the
// primary and what a majority holds, whatever the client's own settings are.
func NewCollection(events *mongo.Collection) *Collection {
	return &Collection{events: events.Clone(options.Collection().
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()))}
}

// pipeline asks for what is handled, and of it for what is used: _id is the
// resume token, and without it the server ends the stream with error 280.
func pipeline(shape Shape) mongo.Pipeline {
	fields := bson.D{
		{Key: "_id", Value: 1},
		{Key: "operationType", Value: 1},
		{Key: "clusterTime", Value: 1},
		{Key: "wallTime", Value: 1},
		{Key: "documentKey", Value: 1},
	}
	if shape == Whole {
		fields = append(fields, bson.E{Key: "fullDocument", Value: 1})
	}
	return mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: operations}}}}}},
		{{Key: "$project", Value: fields}},
	}
}

// Open opens a change stream that starts at from.
func (c *Collection) Open(ctx context.Context, from Position, shape Shape) (ChangeStream, error) {
	most := int32(batchSize)
	if shape == KeysOnly {
		most = keysBatchSize
	}
	sizer := newBatchSizer(most)
	opts := options.ChangeStream().SetMaxAwaitTime(maxAwait).SetBatchSize(sizer.size)
	switch {
	case from.Token != nil:
		opts.SetStartAfter(from.Token)
	case !from.Time.IsZero():
		opts.SetStartAtOperationTime(&from.Time)
	default:
		return nil, errors.New("open change stream: no position given")
	}
	// A session of our own, beside what the driver would use, shows the operation time of
	// each reply. Causal consistency would only hold reads back.
	session, err := c.events.Database().Client().StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return nil, fmt.Errorf("start session: %w", err)
	}
	begun := time.Now()
	stream, err := c.events.Watch(mongo.NewSessionContext(ctx, session), pipeline(shape), opts)
	if err != nil {
		session.EndSession(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("open change stream on %s.%s: %w", c.events.Database().Name(), c.events.Name(), err)
	}
	return &driverStream{stream: stream, session: session, sizer: sizer, opened: time.Since(begun)}, nil
}

// Ping asks the primary for a sign of life.
func (c *Collection) Ping(ctx context.Context) error {
	return c.events.Database().Client().Ping(ctx, readpref.Primary())
}

// Fetch reads the document with that document key, after its insertion: a new primary
// would otherwise be allowed to show less than the stream has, and the document would
// seem to be gone.
func (c *Collection) Fetch(ctx context.Context, documentKey bson.Raw, inserted bson.Timestamp) (bson.Raw, error) {
	session, err := c.events.Database().Client().StartSession()
	if err != nil {
		return nil, fmt.Errorf("start session: %w", err)
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	if err := session.AdvanceOperationTime(&inserted); err != nil {
		return nil, fmt.Errorf("advance session: %w", err)
	}
	doc, err := c.events.FindOne(mongo.NewSessionContext(ctx, session), documentKey).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read event %s: %w", documentKey, err)
	}
	return doc, nil
}

// driverStream is the driver's change stream in chunks.
type driverStream struct {
	stream  *mongo.ChangeStream
	session *mongo.Session
	sizer   batchSizer
	// opened is how long opening took, until the first batch has been looked at.
	opened time.Duration
	// full reports that the server filled the present batch.
	full bool
}

// Next gives what is left of the driver's batch, up to the bounds of a chunk, and
// asks the server only if nothing is left.
func (s *driverStream) Next(ctx context.Context) (Chunk, error) {
	asks, begun := s.stream.RemainingBatchLength() == 0, time.Now()
	if !s.stream.TryNext(ctx) {
		if err := s.stream.Err(); err != nil {
			return Chunk{}, fmt.Errorf("read change stream: %w", err)
		}
		if s.stream.ID() == 0 {
			return Chunk{}, errCursorClosed
		}
		s.opened = 0
		return s.finish(Chunk{}), nil
	}
	if asks {
		took := time.Since(begun)
		if s.opened > 0 { // the reply that opened the stream held this batch
			took, s.opened = s.opened, 0
		}
		s.full = s.sizer.replied(1+s.stream.RemainingBatchLength(), took)
		s.stream.SetBatchSize(s.sizer.size)
	}
	chunk := Chunk{Changes: make([]bson.Raw, 0, min(s.stream.RemainingBatchLength()+1, chunkChanges))}
	var slab []byte
	for size := 0; ; {
		// The driver allows its bytes to be used until the next call only. One slab for
		// many changes spares an allocation for each.
		current := s.stream.Current
		left := s.stream.RemainingBatchLength()
		if len(slab)+len(current) > cap(slab) {
			want := len(current)
			if left > 0 {
				want = max(want, slabBytes)
			}
			slab = make([]byte, 0, want)
		}
		start := len(slab)
		slab = append(slab, current...)
		chunk.Changes = append(chunk.Changes, bson.Raw(slab[start:len(slab):len(slab)]))
		size += len(current)
		if left == 0 || size >= chunkBytes || len(chunk.Changes) >= chunkChanges {
			break
		}
		if !s.stream.TryNext(ctx) {
			return Chunk{}, fmt.Errorf("read change stream: %w", errors.Join(s.stream.Err(), ctx.Err()))
		}
	}
	chunk.More = s.full || s.stream.RemainingBatchLength() > 0
	return s.finish(chunk), nil
}

// finish sets the chunk's position and times.
func (s *driverStream) finish(chunk Chunk) Chunk {
	chunk.Token = s.token()
	chunk.Time = tokenTime(chunk.Token)
	if newest := s.session.OperationTime(); newest != nil {
		chunk.Newest = *newest
	}
	return chunk
}

// token is the position after what was read: after the last change of a reply the
// post-batch token, which may be far past that change. It is a copy, since the
// driver's slice would keep the whole reply in memory.
func (s *driverStream) token() bson.Raw { return bytes.Clone(s.stream.ResumeToken()) }

// Close ends the server's cursor, which is only a courtesy: it would expire.
func (s *driverStream) Close(ctx context.Context) error {
	defer s.session.EndSession(ctx)
	return s.stream.Close(ctx)
}
