package watch

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Position is where a stream starts. The zero value is no position.
type Position struct {
	// Token is opaque: the stream starts just after it.
	Token bson.Raw
	// Time is a cluster time. Without a token, the stream starts with the changes of
	// that very time. With a token, it is the time of the last change before, zero if
	// unknown, and serves only the lag.
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
	// There are none if the server had nothing new within its wait.
	Changes []bson.Raw
	// Token is the position after the last of Changes or, without any, the
	// post-batch token of the server's latest reply.
	Token bson.Raw
	// More reports that the server may have more changes at hand: its reply was as large
	// as it was asked for, or a part of the reply is still to come.
	More bool
	// Time is the cluster time of Token, and Newest that of the server's newest operation
	// when it replied. Zero: unknown.
	Time, Newest bson.Timestamp
}

// behind returns how far the chunk's position is behind the server's newest operation.
func (c Chunk) behind() (behind time.Duration, known bool) {
	if c.Time.IsZero() || c.Newest.IsZero() {
		return 0, false
	}
	at, newest := time.Unix(int64(c.Time.T), 0), time.Unix(int64(c.Newest.T), 0)
	return max(0, newest.Sub(at)), true
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
	// Ping returns nil when the server answers. It uses another connection than a stream
	// whose request waits.
	Ping(ctx context.Context) error
}

// Insert is one event that was stored.
type Insert struct {
	// Document is the event. It is nil only if it was too large for the stream
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
// if only the position has moved.
type Batch struct {
	Inserts []Insert
	// Token is the position after everything in the batch, the changes that are no
	// inserts included. It is never after the change that ended the collection, so that
	// whoever resumes there meets this change again; nil if the batch begins with it.
	Token bson.Raw
	// Time is the cluster time of the last change in it; zero if it is not known.
	Time bson.Timestamp
}
