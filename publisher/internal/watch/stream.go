package watch

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Position is where a stream starts. The zero value is no position.
type Position struct {
	// Token is opaque: the stream starts immediately after it.
	Token bson.Raw
	// Time is a cluster time. Without a token, the stream starts with the changes of that
	// time. With a token, it is the time of the last change before it, zero if unknown, and
	// is used only for the lag.
	Time bson.Timestamp
}

// Chunk is a number of consecutive changes.
type Chunk struct {
	// Changes are change events as the server sent them; the caller may keep them. There
	// are none if the server had nothing new within its wait.
	Changes []bson.Raw
	// Token is the position after the last of Changes or, if there are none, the post-batch
	// token of the server's latest reply.
	Token bson.Raw
	// More reports that the server may have more changes ready: its reply was full, or a
	// part of the reply is still to come.
	More bool
	// Time is the cluster time of Token. Newest is the time of the server's newest
	// operation when it replied. Zero means unknown.
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

// ChangeStream is an open change stream. Only one goroutine may use it.
type ChangeStream interface {
	// Next gives the next chunk. It waits about a second for the first change. After an
	// error only Close may be called.
	Next(ctx context.Context) (Chunk, error)
	// Close ends the server's cursor.
	Close(ctx context.Context) error
}

// Source is the event store, as far as the watcher needs it.
type Source interface {
	// Open opens a change stream that starts at from.
	Open(ctx context.Context, from Position) (ChangeStream, error)
	// Ping returns nil if the server answers. It does not use the connection of a stream
	// whose request waits.
	Ping(ctx context.Context) error
}

// Insert is one stored event.
type Insert struct {
	// Document is the event.
	Document bson.Raw
	// Token is the position immediately after it.
	Token bson.Raw
	// Time is its cluster time.
	Time bson.Timestamp
}

// Batch is the input of the handler: consecutive inserts, or none if only the position has
// moved.
type Batch struct {
	Inserts []Insert
	// Token is the position after everything in the batch, including changes that are not
	// inserts. It is never after a change that ended the collection, so that a stream that
	// resumes there reads that change again.
	Token bson.Raw
	// Time is the cluster time of the last change in it; zero if it is not known.
	Time bson.Timestamp
}
