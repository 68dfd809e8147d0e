package verify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// readPause is the time between two reads.
const readPause = 20 * time.Millisecond

// Reader repeatedly reads a whole collection, like an application that knows nothing of
// generations. Make it with [NewReader].
type Reader struct {
	collection *mongo.Collection
	pipeline   mongo.Pipeline

	mu    sync.Mutex
	reads Reads
}

// Reads are the results of a [Reader].
type Reads struct {
	// Total counts the reads, Empty those without a document after one that had some,
	// Fewer those with fewer documents than the one before, and Mixed those with
	// documents of two definitions or two generations.
	Total, Empty, Fewer, Mixed int
	// First is the number of documents in the first read that had any, Last the number in
	// the last read.
	First, Last int
	// Changed counts the reads with documents of the new definition.
	Changed int
	// Finding is the first fault; empty if there was none.
	Finding string
}

// OK reports whether the reader has seen whole collections of one definition only.
func (r Reads) OK() bool { return r.Total > 0 && r.Empty == 0 && r.Fewer == 0 && r.Mixed == 0 }

// NewReader makes a reader of a collection whose documents are never deleted. Documents of
// the new definition must have the field, and those of the old one must not.
func NewReader(collection *mongo.Collection, field string) *Reader {
	return &Reader{collection: collection, pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{
		{Key: "_id", Value: bson.D{
			{Key: "generation", Value: bson.D{{Key: "$ifNull", Value: bson.A{"$" + lastGeneration, int64(1)}}}},
			{Key: "changed", Value: bson.D{{Key: "$ne", Value: bson.A{bson.D{{Key: "$type", Value: "$" + field}}, "missing"}}}},
		}},
		{Key: "documents", Value: bson.D{{Key: "$sum", Value: 1}}},
	}}}}}
}

// Run reads until ctx ends.
func (r *Reader) Run(ctx context.Context) error {
	for ended := false; !ended; ended = poll.Wait(ctx, readPause) != nil {
		if err := r.read(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// Reads returns the results so far.
func (r *Reader) Reads() Reads {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

// part has the documents of one definition and generation.
type part struct {
	ID struct {
		Generation int64 `bson:"generation"`
		Changed    bool  `bson:"changed"`
	} `bson:"_id"`
	Documents int `bson:"documents"`
}

func (r *Reader) read(ctx context.Context) error {
	cursor, err := r.collection.Aggregate(ctx, r.pipeline)
	var parts []part
	if err == nil {
		err = cursor.All(ctx, &parts)
	}
	if replaced(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", r.collection.Name(), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads.add(parts)
	return nil
}

// replaced reports whether the collection was renamed or dropped while the server read it.
// The server returns an error then, and applications read again.
func replaced(err error) bool {
	const queryPlanKilled = 175
	server, ok := errors.AsType[mongo.ServerError](err)
	return ok && server.HasErrorCode(queryPlanKilled)
}

func (r *Reads) add(parts []part) {
	r.Total++
	documents, changed := 0, false
	for _, p := range parts {
		documents += p.Documents
		changed = changed || p.ID.Changed
	}
	if changed {
		r.Changed++
	}
	if r.First == 0 {
		r.First = documents
	}
	switch {
	case documents == 0 && r.First > 0:
		r.Empty++
		r.find("read %d: the collection is empty, and had %d documents before", r.Total, r.Last)
	case documents < r.Last:
		r.Fewer++
		r.find("read %d: the collection has %d documents, and had %d before", r.Total, documents, r.Last)
	}
	if len(parts) > 1 {
		r.Mixed++
		r.find("read %d: the documents are of several definitions: %+v", r.Total, parts)
	}
	r.Last = documents
}

func (r *Reads) find(format string, args ...any) {
	if r.Finding == "" {
		r.Finding = fmt.Sprintf(format, args...)
	}
}
