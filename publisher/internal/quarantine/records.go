package quarantine

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// MaxRecords bounds the records that one request lists.
const MaxRecords = 10_000

const listTimeout = 30 * time.Second

// Record is an event in the quarantine, as an operator sees it.
type Record struct {
	// DocumentID is the event's _id in the store; null if it had none. Document is its text, in
	// the format of [DocumentText].
	DocumentID bson.RawValue `bson:"-" json:"-"`
	Document   string        `bson:"-" json:"document"`
	Reason     event.Reason  `bson:"reason" json:"reason"`
	Field      string        `bson:"field" json:"field,omitempty"`
	Detail     string        `bson:"detail" json:"detail"`
	// AggregateID and EventID are empty and nil if they could not be read.
	AggregateID string    `bson:"aggregateId" json:"aggregateId,omitempty"`
	EventID     *int64    `bson:"eventId" json:"eventId,omitempty"`
	FirstSeen   time.Time `bson:"firstSeen" json:"firstSeenAt"`
	LastSeen    time.Time `bson:"lastSeen" json:"lastSeenAt"`
	// Seen counts how often the event was read.
	Seen  int64 `bson:"seen" json:"seen"`
	Epoch int64 `bson:"epoch" json:"epoch"`
	// Event is the whole document in relaxed Extended JSON; empty if it was omitted, or before
	// [Records.ReadEvent].
	Event string `bson:"-" json:"event,omitempty"`
}

// stored is a record in the collection.
type stored struct {
	ID struct {
		Document bson.RawValue `bson:"document"`
	} `bson:"_id"`
	Record `bson:",inline"`
}

// Filter chooses records. The zero value chooses all.
type Filter struct {
	Reason      event.Reason
	AggregateID string
	// Document is the text of a document's _id, in the format of [DocumentText].
	Document string
	// Before, if not zero, chooses records that were first seen at or before that time.
	Before time.Time
}

// Records are the records of one stream, for commands.
type Records struct {
	collection *mongo.Collection
	stream     string
}

// NewRecords makes the records of a stream in a database of the state.
func NewRecords(db *mongo.Database, stream string) *Records {
	return &Records{collection: db.Collection(CollectionName), stream: stream}
}

// all is the filter for the records of the stream, by the index of _id.
func (r *Records) all() bson.D {
	bound := func(document any) bson.D {
		return bson.D{{Key: "stream", Value: r.stream}, {Key: "document", Value: document}}
	}
	return bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: bound(bson.MinKey{})}, {Key: "$lte", Value: bound(bson.MaxKey{})}}}}
}

// Count counts the records, up to limit.
func (r *Records) Count(ctx context.Context, limit int64) (int64, error) {
	return r.collection.CountDocuments(ctx, r.all(), options.Count().SetLimit(limit))
}

// List returns the records that f chooses, in the order in which they were first seen, and
// at most limit (up to [MaxRecords]) of them, without their events. If some of them cannot be read,
// it returns the others with a [mongox.UnreadableError].
func (r *Records) List(ctx context.Context, f Filter, limit int) ([]Record, error) {
	ctx, cancel := mongox.Timeout(ctx, listTimeout)
	defer cancel()
	limit = min(limit, MaxRecords)
	filter := r.all()
	if f.Reason != "" {
		filter = append(filter, bson.E{Key: "reason", Value: f.Reason})
	}
	if f.AggregateID != "" {
		filter = append(filter, bson.E{Key: "aggregateId", Value: f.AggregateID})
	}
	if !f.Before.IsZero() {
		filter = append(filter, bson.E{Key: "firstSeen", Value: bson.D{{Key: "$lte", Value: f.Before}}})
	}
	find := options.Find().SetProjection(bson.D{{Key: "event", Value: 0}, {Key: "token", Value: 0}})
	if f.Document == "" {
		// With a limit, the server keeps no more records while it sorts them.
		find.SetSort(bson.D{{Key: "firstSeen", Value: 1}, {Key: "_id", Value: 1}}).SetLimit(int64(limit)).SetAllowDiskUse(true)
	}
	cursor, err := r.collection.Find(ctx, filter, find)
	if err != nil {
		return nil, fmt.Errorf("read the quarantine: %w", mongox.Explain(ctx, err))
	}
	defer func() { _ = cursor.Close(ctx) }()
	var records []Record
	unreadable := &mongox.UnreadableError{Collection: CollectionName}
	for len(records) < limit && cursor.Next(ctx) {
		var s stored
		if err := cursor.Decode(&s); err != nil {
			unreadable.Add(slices.Clone(cursor.Current), err)
			continue
		}
		s.DocumentID, s.Document = s.ID.Document, DocumentText(s.ID.Document)
		if f.Document != "" && s.Document != f.Document {
			continue
		}
		records = append(records, s.Record)
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("read the quarantine: %w", mongox.Explain(ctx, err))
	}
	return records, unreadable.OrNil()
}

// ReadEvent sets the Event of a record.
func (r *Records) ReadEvent(ctx context.Context, record *Record) error {
	ctx, cancel := mongox.Timeout(ctx, listTimeout)
	defer cancel()
	var found struct {
		Event bson.Raw `bson:"event"`
	}
	id := bson.D{{Key: "stream", Value: r.stream}, {Key: "document", Value: record.DocumentID}}
	if err := r.collection.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(&found); err != nil {
		return fmt.Errorf("read event %s of the quarantine: %w", record.Document, mongox.Explain(ctx, err))
	}
	if text, err := bson.MarshalExtJSON(found.Event, false, false); found.Event != nil && err == nil {
		record.Event = string(text)
	}
	return nil
}

// Known reports which of the documents with these _ids have a record.
func (r *Records) Known(ctx context.Context, documents []bson.RawValue) ([]bool, error) {
	ids := make(bson.A, len(documents))
	for i, document := range documents {
		ids[i] = r.id(document)
	}
	ctx, cancel := mongox.Timeout(ctx, listTimeout)
	defer cancel()
	cursor, err := r.collection.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return nil, fmt.Errorf("read the quarantine: %w", mongox.Explain(ctx, err))
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	recorded := make(map[string]struct{})
	for cursor.Next(ctx) {
		recorded[cursor.Current.Lookup("_id", "document").String()] = struct{}{}
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("read the quarantine: %w", mongox.Explain(ctx, err))
	}
	known := make([]bool, len(documents))
	for i, document := range documents {
		_, known[i] = recorded[document.String()]
	}
	return known, nil
}

// id is the _id of the record of a document.
func (r *Records) id(document bson.RawValue) bson.D {
	return bson.D{{Key: "stream", Value: r.stream}, {Key: "document", Value: idOrNull(document)}}
}

// Remove deletes records, and returns how many existed.
func (r *Records) Remove(ctx context.Context, records ...Record) (int64, error) {
	ids := make(bson.A, len(records))
	for i, record := range records {
		ids[i] = r.id(record.DocumentID)
	}
	ctx, cancel := mongox.Timeout(ctx, listTimeout)
	defer cancel()
	result, err := r.collection.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	if err != nil {
		return 0, fmt.Errorf("remove %d records of the quarantine: %w", len(records), mongox.Explain(ctx, err))
	}
	return result.DeletedCount, nil
}

// DocumentText formats a document's _id for people: a string or an ObjectId as it is, any
// other value as Extended JSON. A string that looks like another value is in quotes, and no text
// is empty, so that it chooses one record.
func DocumentText(id bson.RawValue) string {
	if text, ok := id.StringValueOK(); ok && !looksOther.MatchString(text) {
		return text
	}
	if oid, ok := id.ObjectIDOK(); ok {
		return oid.Hex()
	}
	return id.String()
}

// looksOther matches the texts of values that are no strings, and of quoted strings.
var looksOther = regexp.MustCompile(`^$|^[0-9a-f]{24}$|^["{\[]|^(true|false|null)$`)

// ErrGone says that an event is no longer in the event store.
var ErrGone = errors.New("the event is no longer in the event store")
