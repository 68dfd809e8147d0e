package watcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Change is a change of a copy. Exactly one field is set.
type Change struct {
	// All are all documents: the first ones, and again after a new generation has replaced
	// them.
	All []bson.Raw
	// Document is a document that is new or has changed.
	Document bson.Raw
	// Deleted is the _id of a document that is gone, in a document of its own.
	Deleted bson.Raw
}

// Copy is an up-to-date copy of a collection. Make it with [NewCopy], and keep it up to date
// with [Copy.Follow].
type Copy struct {
	collection *mongo.Collection

	mu        sync.Mutex
	documents map[string]bson.Raw // by id; nil until the collection was read
	watchers  map[chan Change]bool
}

// NewCopy makes a copy that has nothing yet.
func NewCopy(collection *mongo.Collection) *Copy {
	return &Copy{collection: collection, watchers: map[chan Change]bool{}}
}

// buffered is how many changes a watcher may be behind.
const buffered = 256

// Watch returns a channel with the changes of the copy. The first one has all documents. A
// watcher that falls behind loses its channel, which is closed, and calls Watch again. stop
// ends the channel.
func (c *Copy) Watch() (changes <-chan Change, stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := make(chan Change, buffered)
	c.watchers[w] = true
	if c.documents != nil {
		w <- Change{All: slices.AppendSeq([]bson.Raw{}, maps.Values(c.documents))}
	}
	return w, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.drop(w)
	}
}

func (c *Copy) drop(w chan Change) {
	if c.watchers[w] {
		delete(c.watchers, w)
		close(w)
	}
}

// tell sends a change to every watcher.
func (c *Copy) tell(change Change) {
	for w := range c.watchers {
		select {
		case w <- change:
		default:
			c.drop(w)
		}
	}
}

// event is the part of a change event that a copy reads.
type event struct {
	Operation   string         `bson:"operationType"`
	ClusterTime bson.Timestamp `bson:"clusterTime"`
	Key         bson.Raw       `bson:"documentKey"`
	// Document is missing after an update if the document is gone meanwhile.
	Document bson.Raw `bson:"fullDocument"`
}

// Follow keeps the copy up to date until ctx or the change stream ends. Then call it again: it
// reads the whole collection anew.
//
// It watches the database, because a stream on the collection ends when a new generation
// replaces it. That is a rename, and no stream has the documents that the new collection had
// before it, so they are read.
func (c *Copy) Follow(ctx context.Context) error {
	name := c.collection.Name()
	ofName := bson.A{bson.D{{Key: "ns.coll", Value: name}}, bson.D{{Key: "to.coll", Value: name}}}
	pipeline := mongo.Pipeline{{{Key: "$match", Value: bson.D{{Key: "$or", Value: ofName}}}}}
	stream, err := c.collection.Database().Watch(ctx, pipeline, options.ChangeStream().SetFullDocument(options.UpdateLookup).SetMaxAwaitTime(500*time.Millisecond))
	if err != nil {
		return fmt.Errorf("watch the database: %w", err)
	}
	defer func() { _ = stream.Close(context.WithoutCancel(ctx)) }()
	if err := c.read(ctx, stream); err != nil {
		return err
	}
	for stream.Next(ctx) {
		var e event
		if err := stream.Decode(&e); err != nil {
			return fmt.Errorf("decode a change: %w", err)
		}
		if e.replaces() {
			err = c.read(ctx, stream)
		} else {
			c.change(e)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("watch the database: %w", stream.Err())
}

// read reads the whole collection, and shows it. What happened meanwhile is in the stream, and
// is applied before anything is shown: otherwise documents would go back for a moment.
func (c *Copy) read(ctx context.Context, stream *mongo.ChangeStream) error {
	documents, until, err := c.find(ctx)
	if err != nil {
		return err
	}
	for stream.TryNext(ctx) {
		var e event
		if err := stream.Decode(&e); err != nil {
			return fmt.Errorf("decode a change: %w", err)
		}
		if e.replaces() {
			if documents, until, err = c.find(ctx); err != nil {
				return err
			}
			continue
		}
		e.apply(documents)
		if e.ClusterTime.After(until) {
			break
		}
	}
	if err := stream.Err(); err != nil {
		return fmt.Errorf("watch the database: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.documents = documents
	c.tell(Change{All: slices.AppendSeq([]bson.Raw{}, maps.Values(documents))})
	return nil
}

// find returns all documents, and the server's time when it had sent them.
func (c *Copy) find(ctx context.Context) (documents map[string]bson.Raw, until bson.Timestamp, err error) {
	documents = map[string]bson.Raw{}
	err = c.collection.Database().Client().UseSession(ctx, func(ctx context.Context) error {
		cursor, err := c.collection.Find(ctx, bson.D{})
		if err != nil {
			return err
		}
		var all []bson.Raw
		if err := cursor.All(ctx, &all); err != nil {
			return err
		}
		for _, d := range all {
			documents[id(d)] = d
		}
		if at := mongo.SessionFromContext(ctx).OperationTime(); at != nil {
			until = *at
		}
		return nil
	})
	if err != nil {
		return nil, until, fmt.Errorf("read the collection: %w", err)
	}
	return documents, until, nil
}

func (c *Copy) change(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.apply(c.documents)
	if e.Document == nil {
		c.tell(Change{Deleted: e.Key})
	} else {
		c.tell(Change{Document: e.Document})
	}
}

// replaces reports whether other documents have the collection's name now: it was renamed or
// dropped.
func (e event) replaces() bool { return e.Key == nil }

// apply applies a change to documents.
func (e event) apply(documents map[string]bson.Raw) {
	if e.Document == nil {
		delete(documents, id(e.Key))
	} else {
		documents[id(e.Key)] = e.Document
	}
}

func id(document bson.Raw) string { return document.Lookup("_id").String() }
