package watch

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Position is where a stream starts. The zero value is no position.
type Position struct {
	// Token is opaque: the stream starts just after it.
	Token bson.Raw
	// Time is a cluster time: without a token, the stream starts with the changes of
	// that very time.
	Time bson.Timestamp
}

// Shape says what a stream carries of each change.
type Shape int

// The shapes.
const (
	// Whole carries the inserted document.
	Whole Shape = iota
	// KeysOnly carries its key alone, for the change whose whole form exceeds the
	// 16 MiB that the server can reply.
	KeysOnly
)

// Chunk is some changes that follow one another.
type Chunk struct {
	// Changes are change events as the server sent them; they belong to the receiver.
	// There are none where the server had nothing new within its wait.
	Changes []bson.Raw
	// Token is the position after the last of Changes or, without any, the
	// post-batch token of the server's latest reply.
	Token bson.Raw
}

// ChangeStream is an open change stream. One goroutine uses it.
type ChangeStream interface {
	// Next gives the next chunk, waiting about a second for the first change. After
	// an error the stream is of no more use, but for Close.
	Next(ctx context.Context) (Chunk, error)
	// Close ends the server's cursor.
	Close(ctx context.Context) error
}

// Source is the event store as the watcher needs it.
type Source interface {
	// Open opens a change stream that starts at from.
	Open(ctx context.Context, from Position, shape Shape) (ChangeStream, error)
	// Fetch reads the document with that document key, which was inserted at that
	// cluster time; nil without an error means that there is none any more.
	Fetch(ctx context.Context, documentKey bson.Raw, inserted bson.Timestamp) (bson.Raw, error)
}

// Insert is one event that was stored.
type Insert struct {
	// Document is the event. It is nil only where it was too large for the stream
	// and is no longer in the store.
	Document bson.Raw
	// DocumentKey identifies it in the store.
	DocumentKey bson.Raw
	// Token is the position just after it.
	Token bson.Raw
	// Time is its cluster time.
	Time bson.Timestamp
}

// Batch is what the handler gets: some inserts that follow one another, or none
// where only the position has moved.
type Batch struct {
	Inserts []Insert
	// Token is the position after everything in the batch, the changes that are no
	// inserts included.
	Token bson.Raw
	// Time is the cluster time of the last change in it; zero where it is not known.
	Time bson.Timestamp
}
