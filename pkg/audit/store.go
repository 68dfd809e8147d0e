package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// collectionName is the collection's name in the database of the state.
const collectionName = "audit"

// maxList bounds a list.
const maxList = 10_000

// requestTimeout bounds one request.
const requestTimeout = 10 * time.Second

// maxTextBytes bounds each text of an entry.
const maxTextBytes = 4 << 10

// Outcome is the state of a change.
type Outcome string

// Outcomes.
const (
	// begun: the command is running, or has died.
	begun Outcome = "begun"
	// done: the change was made.
	done Outcome = "done"
	// Failed: Entry.Error says why. The change may have been made in part.
	Failed Outcome = "failed"
)

// Entry is one change.
type Entry struct {
	// ID begins with the time of the command's process, in UTC. Entries are sorted by it.
	ID string `bson:"_id" json:"id"`
	// At is when the change began, by the server's clock.
	At time.Time `bson:"at" json:"at"`
	// Who made the change, as NAME@HOST; in a cluster the host is the pod.
	Who string `bson:"who" json:"who"`
	// Command is the path of the command, such as "parked retry".
	Command string `bson:"command" json:"command"`
	// What describes the intended change.
	What string `bson:"what" json:"what"`
	// Why is the given reason; it may be empty.
	Why     string  `bson:"why,omitempty" json:"why,omitempty"`
	Outcome Outcome `bson:"outcome" json:"outcome"`
	// Counts are the numbers of the result, by name.
	Counts map[string]int64 `bson:"counts,omitempty" json:"counts,omitempty"`
	// Error is the reason of a failure.
	Error string `bson:"error,omitempty" json:"error,omitempty"`
	// EndedAt is when the outcome was known, by the server's clock; nil before.
	EndedAt *time.Time `bson:"endedAt,omitempty" json:"endedAt,omitempty"`
}

// In returns the collection in a database of the state.
func In(db *mongo.Database) *mongo.Collection {
	return db.Collection(collectionName)
}

// Store is the audit. It is safe for concurrent use.
type Store struct {
	collection mongox.Collection
}

// NewStore makes a store of the entries in the collection.
func NewStore(c mongox.Collection) *Store { return &Store{collection: c} }

// begin records that a change is about to be made. It uses Who, Command, What and Why of e.
// Make the change only if begin succeeds.
func (s *Store) begin(ctx context.Context, e Entry) (id string, err error) {
	id = time.Now().UTC().Format("20060102T150405.000000000") + "-" + bson.NewObjectID().Hex()
	set := bson.D{
		{Key: "who", Value: clip(e.Who)},
		{Key: "command", Value: clip(e.Command)},
		{Key: "what", Value: clip(e.What)},
		{Key: "outcome", Value: begun},
	}
	if e.Why != "" {
		set = append(set, bson.E{Key: "why", Value: clip(e.Why)})
	}
	// Only an update can take the server's time, so this is an upsert.
	request, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	_, err = s.collection.UpdateOne(request, bson.D{{Key: "_id", Value: id}}, bson.D{
		{Key: "$set", Value: set},
		{Key: "$currentDate", Value: bson.D{{Key: "at", Value: true}}},
	}, options.UpdateOne().SetUpsert(true))
	if err != nil {
		return id, fmt.Errorf("write the audit: %w", mongox.Explain(request, err))
	}
	return id, nil
}

// end records the result of a change: done, or failed with failure. counts may be nil. end
// also works after ctx has ended, so that an interrupted command is recorded.
func (s *Store) end(ctx context.Context, id string, counts map[string]int64, failure error) error {
	set := bson.D{{Key: "outcome", Value: done}}
	if failure != nil {
		set = bson.D{{Key: "outcome", Value: Failed}, {Key: "error", Value: clip(failure.Error())}}
	}
	if len(counts) > 0 {
		set = append(set, bson.E{Key: "counts", Value: counts})
	}
	request, cancel := mongox.Timeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	_, err := s.collection.UpdateOne(request, bson.D{{Key: "_id", Value: id}}, bson.D{
		{Key: "$set", Value: set},
		{Key: "$currentDate", Value: bson.D{{Key: "endedAt", Value: true}}},
	})
	if err != nil {
		return fmt.Errorf("write the outcome %s to the audit: %w", set[0].Value, mongox.Explain(request, err))
	}
	return nil
}

// Do makes a change and records it: begin, change, end. change returns the numbers of its
// result.
func (s *Store) Do(ctx context.Context, e Entry, change func(ctx context.Context) (map[string]int64, error)) error {
	id, err := s.begin(ctx, e)
	if err != nil {
		return err
	}
	counts, err := change(ctx)
	return errors.Join(err, s.end(ctx, id, counts, err))
}

// List returns the last entries of commands that begin with command, the newest first. An
// empty command means all. limit is at most 10,000. If entries cannot be read, List returns
// the others with a [mongox.UnreadableError].
func (s *Store) List(ctx context.Context, command string, limit int) ([]Entry, error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	filter := bson.D{}
	if command != "" {
		// Commands consist of letters and spaces, so this upper bound is greater than all
		// that begin with command.
		filter = bson.D{{Key: "command", Value: bson.D{{Key: "$gte", Value: command}, {Key: "$lt", Value: command + "\uffff"}}}}
	}
	entries, err := mongox.All[Entry](ctx, s.collection)(s.collection.Find(ctx, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetLimit(int64(min(limit, maxList)))))
	if err != nil {
		err = fmt.Errorf("read the audit: %w", mongox.Explain(ctx, err))
	}
	return entries, err
}

// clip cuts a text to the size that an entry may have.
func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxTextBytes)], "")
}
