package term

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// ErrUnreadable says that none of the newest events can be read. The error names the
// configured fields, the fields that the documents have, and the remedy.
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
	reader, err := event.NewReader(s.Fields)
	if err != nil {
		return Counts{}, err
	}
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
	var reasons []error
	var latest bson.Raw
	for size := 0; size < sampleBytes && cursor.Next(ctx); size += len(cursor.Current) {
		document := slices.Clone(cursor.Current)
		ev, err := reader.Read(document)
		switch {
		case err != nil:
			ids, reasons = append(ids, document.Lookup("_id")), append(reasons, err)
			if latest == nil {
				latest = document
			}
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
	problems := make(map[problem]int)
	for i, err := range reasons {
		if known[i] {
			continue
		}
		if counts.Unreadable++; counts.Unreadable == 1 {
			counts.Latest = err
		}
		p := problem{reason: event.ReasonMalformed}
		if broken, ok := errors.AsType[*event.ContractError](err); ok {
			p = problem{broken.Reason, broken.Field}
		}
		problems[p]++
	}
	if counts.Readable > 0 || counts.Unreadable < sampleMinimum {
		return counts, nil
	}
	return counts, s.explain(problems, counts, latest)
}

type problem struct {
	reason event.Reason
	field  string
}

// explain returns [ErrUnreadable] for a sample, with the newest of its documents.
func (s Sample) explain(problems map[problem]int, counts Counts, latest bson.Raw) error {
	var reasons, variables []string
	for _, p := range slices.SortedFunc(maps.Keys(problems), func(x, y problem) int { return problems[y] - problems[x] }) {
		text := string(p.reason)
		if p.field != "" {
			text += " in field " + strconv.Quote(p.field)
		}
		if variable := s.Fields.Variable(p.field); variable != "" {
			text += " (" + variable + ")"
			if !slices.Contains(variables, variable) {
				variables = append(variables, variable)
			}
		}
		reasons = append(reasons, fmt.Sprintf("%s: %d", text, problems[p]))
	}
	remedy := "check PENSTOCK_EVENTS_DATABASE and PENSTOCK_EVENTS_COLLECTION"
	if len(variables) > 0 {
		remedy = "set " + strings.Join(variables, " and ") + " to the field that the documents have"
	}
	return fmt.Errorf("%w, all %d of them: %s; the latest (%w) has the fields %s; %s; if the writer is wrong instead, correct it: the publisher starts as soon as one of the newest %d events can be read, and puts the others into the quarantine",
		ErrUnreadable, counts.Unreadable, strings.Join(reasons, ", "), counts.Latest, names(latest), remedy, sampleEvents)
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
