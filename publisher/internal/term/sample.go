package term

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// ErrUnreadable says that none of the newest events can be read. The error names what the latest
// one lacks, the fields that it has, and the remedy.
var ErrUnreadable = errors.New("none of the newest events can be read")

const (
	// sampleEvents is how many of the newest events are read.
	sampleEvents = 100
	// sampleBytes bounds the bytes read, apart from the server's last reply.
	sampleBytes = 4 << 20
	// sampleBatch is the number of documents in a reply.
	sampleBatch = 20
	// sampleMinimum is how many unreadable events a sample needs to fail. A new store may
	// have only one or two events.
	sampleMinimum = 3
	// maxNames and maxName bound how many field names of a document an error shows, and
	// their length.
	maxNames = 20
	maxName  = 64
)

// Sample reads the newest events of a store at the start, to find wrong field names
// (PENSTOCK_FIELD_*) or a wrong collection before the events go to the quarantine. Events that
// are in the quarantine already do not count, so a writer of wrong events does not keep a
// publisher that restarts from starting.
type Sample struct {
	Events *mongo.Collection
	Fields event.Fields
	// IDs, if it is set, is the type that the ids of aggregates must have.
	IDs event.IDKind
	// Known reports which of the documents with these _ids are in the quarantine.
	Known func(ctx context.Context, ids []bson.RawValue) ([]bool, error)
}

// Counts are what a sample had. The zero value is that of an empty store.
type Counts struct {
	// Readable is the number of events that keep the contract, and Payloads is how many of them
	// have a payload. Unreadable is the number of the others.
	Readable, Payloads, Unreadable int
	// Latest is why the newest of the unreadable events cannot be read.
	Latest error
}

// Read reads the newest events of the collection, by _id. It fails with [ErrUnreadable] if
// there are three of them or more and none can be read. Other errors come from the requests.
func (s Sample) Read(ctx context.Context) (Counts, error) {
	reader := event.NewReader(s.Fields)
	reader.Only(s.IDs)
	explain := func(err error) error {
		return fmt.Errorf("read a sample of %s.%s: %w", s.Events.Database().Name(), s.Events.Name(), err)
	}
	cursor, err := s.Events.Aggregate(ctx, mongo.Pipeline{{{Key: "$sort", Value: bson.D{{Key: "_id", Value: -1}}}}, {{Key: "$limit", Value: sampleEvents}}},
		options.Aggregate().SetBatchSize(sampleBatch))
	if err != nil {
		return Counts{}, explain(err)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	var counts Counts
	var ids []bson.RawValue
	var unreadable []bson.Raw
	var reasons []error
	for size := 0; size < sampleBytes && cursor.Next(ctx); size += len(cursor.Current) {
		ev, err := reader.Read(slices.Clone(cursor.Current))
		switch {
		case err != nil:
			ids = append(ids, ev.Document.Lookup("_id"))
			unreadable, reasons = append(unreadable, ev.Document), append(reasons, err)
			continue
		case ev.Payload.Type != 0:
			counts.Payloads++
		}
		counts.Readable++
	}
	if err := cursor.Err(); err != nil {
		return Counts{}, explain(err)
	}
	if len(ids) == 0 {
		return counts, nil
	}
	known, err := s.Known(ctx, ids)
	if err != nil {
		return Counts{}, err
	}
	var latest bson.Raw
	for i, err := range reasons {
		if known[i] {
			continue
		}
		if counts.Unreadable++; counts.Unreadable == 1 {
			counts.Latest, latest = err, unreadable[i]
		}
	}
	if counts.Readable > 0 || counts.Unreadable < sampleMinimum {
		return counts, nil
	}
	return counts, s.explain(counts, latest)
}

// explain returns [ErrUnreadable] for a sample, with the newest of its documents.
func (s Sample) explain(counts Counts, latest bson.Raw) error {
	remedy := "check PENSTOCK_EVENTS_DATABASE and PENSTOCK_EVENTS_COLLECTION"
	if broken, ok := errors.AsType[*event.ContractError](counts.Latest); ok && s.Fields.Variable(broken.Field) != "" {
		remedy = "set " + s.Fields.Variable(broken.Field) + " to the field that the documents have"
	}
	return fmt.Errorf("%w, all %d of them; the latest (%w) has the fields %s; %s; if the writer is wrong instead, correct it: the publisher starts as soon as one of the newest %d events can be read, and puts the others into the quarantine",
		ErrUnreadable, counts.Unreadable, counts.Latest, names(latest), remedy, sampleEvents)
}

// names lists the top-level fields of a document.
func names(document bson.Raw) string {
	elements, err := document.Elements()
	if err != nil {
		return "(malformed BSON)"
	}
	var all []string
	for i, e := range elements {
		if i == maxNames {
			all = append(all, fmt.Sprintf("and %d more", len(elements)-maxNames))
			break
		}
		name := e.Key()
		if len(name) > maxName {
			name = name[:maxName] + "…"
		}
		all = append(all, strconv.Quote(name))
	}
	return strings.Join(all, ", ")
}
