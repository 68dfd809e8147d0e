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

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// maxAwait is how long the server waits for a change before it replies. It is the
	// interval of post-batch tokens on an idle stream.
	maxAwait = time.Second
	// batchSize bounds the changes of a reply. 16 MiB bound it too. It is large enough to
	// make round trips few, and small enough that a server which searches a long oplog for
	// rare changes answers soon: each answer moves the position.
	batchSize = 1024

	// chunkChanges and chunkBytes bound a chunk.
	chunkChanges = 512
	chunkBytes   = 256 << 10
)

// Collection is the [Source] on a real collection.
type Collection struct {
	events *mongo.Collection
}

var _ Source = (*Collection)(nil)

// NewCollection makes the source of the events collection.
func NewCollection(events *mongo.Collection) *Collection { return &Collection{events} }

// pipeline selects the changes that are handled and the fields that are used. _id is the
// resume token; without it the server ends the stream with error 280.
func pipeline() mongo.Pipeline {
	return mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: operations}}}}}},
		{{Key: "$project", Value: bson.D{
			{Key: "_id", Value: 1},
			{Key: "operationType", Value: 1},
			{Key: "clusterTime", Value: 1},
			{Key: "wallTime", Value: 1},
			{Key: "documentKey", Value: 1},
			{Key: "fullDocument", Value: 1},
		}}},
	}
}

// Open opens a change stream that starts at from.
func (c *Collection) Open(ctx context.Context, from Position) (ChangeStream, error) {
	opts := options.ChangeStream().SetMaxAwaitTime(maxAwait).SetBatchSize(batchSize)
	switch {
	case from.Token != nil:
		opts.SetStartAfter(from.Token)
	case !from.Time.IsZero():
		opts.SetStartAtOperationTime(&from.Time)
	default:
		return nil, errors.New("open change stream: no position given")
	}
	// An explicit session gives access to the operation time of each reply. Causal
	// consistency would delay reads.
	session, err := c.events.Database().Client().StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return nil, fmt.Errorf("start session: %w", err)
	}
	stream, err := c.events.Watch(mongo.NewSessionContext(ctx, session), pipeline(), opts)
	if err != nil {
		session.EndSession(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("open change stream on %s.%s: %w", c.events.Database().Name(), c.events.Name(), err)
	}
	return &driverStream{stream: stream, session: session}, nil
}

// Ping checks that the primary answers.
func (c *Collection) Ping(ctx context.Context) error {
	return c.events.Database().Client().Ping(ctx, nil)
}

// driverStream divides the driver's change stream into chunks.
type driverStream struct {
	stream  *mongo.ChangeStream
	session *mongo.Session
	// full reports that the server filled the present batch, so that it may have more changes
	// ready.
	full bool
}

// Next gives the rest of the driver's batch, up to the bounds of a chunk. It asks the
// server only if the batch is used up.
func (s *driverStream) Next(ctx context.Context) (Chunk, error) {
	asks := s.stream.RemainingBatchLength() == 0
	if !s.stream.TryNext(ctx) {
		if err := s.stream.Err(); err != nil {
			return Chunk{}, fmt.Errorf("read change stream: %w", err)
		}
		if s.stream.ID() == 0 {
			return Chunk{}, errCursorClosed
		}
		return s.finish(Chunk{}), nil
	}
	if asks {
		s.full = 1+s.stream.RemainingBatchLength() >= batchSize
	}
	chunk := Chunk{Changes: make([]bson.Raw, 0, min(s.stream.RemainingBatchLength()+1, chunkChanges))}
	var slab mongox.Slab
	for size := 0; ; {
		current, left := s.stream.Current, s.stream.RemainingBatchLength()
		chunk.Changes = append(chunk.Changes, slab.Copy(current, left > 0))
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
	chunk.Time = TokenTime(chunk.Token)
	if newest := s.session.OperationTime(); newest != nil {
		chunk.Newest = *newest
	}
	return chunk
}

// token is the position after the changes read so far. After the last change of a reply it
// is the post-batch token, which can be far past that change. It is a copy, because the
// driver's slice would keep the whole reply in memory.
func (s *driverStream) token() bson.Raw { return bytes.Clone(s.stream.ResumeToken()) }

// Close closes the server's cursor, which would expire anyway.
func (s *driverStream) Close(ctx context.Context) error {
	defer s.session.EndSession(ctx)
	return s.stream.Close(ctx)
}
