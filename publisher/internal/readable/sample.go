package readable

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// sampleEvents is how many of the oldest, of the newest or of all events are read: as many
	// as a [Window] counts, so that a restart judges as the running process did.
	sampleEvents = 100
	// sampleBytes bounds the bytes read of each, apart from the server's last reply.
	sampleBytes = 4 << 20
	// sampleBatch is the number of documents in a reply.
	sampleBatch = 20
	// sampleMinimum is how many unreadable events a sample needs to fail. A new store may
	// have only one or two events.
	sampleMinimum = 3
)

// Known reports which of the documents with these _ids are in the quarantine already.
type Known func(ctx context.Context, ids []bson.RawValue) ([]bool, error)

// Check reads samples of a store. Events that are in the quarantine already do not count.
type Check struct {
	Events *mongo.Collection
	Fields event.Fields
	// Share is the largest share of unreadable events; at 1 or more every store passes.
	Share float64
	Known Known
}

// Counts are what a sample had. The zero value is that of an empty store, and of a check that
// passes every store.
type Counts struct {
	// Readable is the number of events that keep the contract, and Payloads is how many of them
	// have a payload. Unreadable is the number of the others.
	Readable, Payloads, Unreadable int
}

// Ends reads the oldest and the newest events of the collection, by _id. It fails with
// [ErrUnreadable] if more than the share of them cannot be read. Other errors come from the
// requests. Unreadable events count once for each aggregate, unless no event can be read at
// all. A store with fewer than three events passes.
func (c Check) Ends(ctx context.Context) (Counts, error) {
	if (Limit{Share: c.Share}).Off() {
		return Counts{}, nil
	}
	var all sample
	if err := c.read(ctx, &all, bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: -1}}}}); err != nil {
		return Counts{}, err
	}
	newest := all
	if err := c.read(ctx, &all, bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}}); err != nil {
		return Counts{}, err
	}
	if err := c.judge(all, all.Readable > 0, "events of a sample of the store"); err != nil {
		return Counts{}, err
	}
	return all.Counts, c.judge(newest, true, "of the newest events of the store")
}

// Whole is Ends for events that the server draws at random from the whole collection.
func (c Check) Whole(ctx context.Context) error {
	var all sample
	if err := c.read(ctx, &all, bson.D{{Key: "$sample", Value: bson.D{{Key: "size", Value: sampleEvents}}}}); err != nil {
		return err
	}
	return c.judge(all, all.Readable > 0, "events of a random sample of the store")
}

// sample counts events that are not in the quarantine.
type sample struct {
	Counts

	seen map[string]struct{}
	bad  []failure
}

// failure is an unreadable event, with the reason.
type failure struct {
	ev  event.Event
	err error
}

// aggregate identifies the aggregate of the event. An event without an aggregate id has one
// of its own.
func (f failure) aggregate() string {
	if f.ev.RawAggregateID.Type == 0 {
		return f.ev.Document.Lookup("_id").String()
	}
	return f.ev.RawAggregateID.String()
}

// read adds the events that stage puts first to the sample.
func (c Check) read(ctx context.Context, s *sample, stage bson.D) error {
	reader, err := event.NewReader(c.Fields)
	if err != nil {
		return err
	}
	explain := func(err error) error {
		return fmt.Errorf("read a sample of %s.%s: %w", c.Events.Database().Name(), c.Events.Name(), err)
	}
	cursor, err := c.Events.Aggregate(ctx, mongo.Pipeline{stage, {{Key: "$limit", Value: sampleEvents}}}, options.Aggregate().SetBatchSize(sampleBatch))
	if err != nil {
		return explain(err)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	if s.seen == nil {
		s.seen = make(map[string]struct{})
	}
	var bad []failure
	var ids []bson.RawValue
	for size := 0; size < sampleBytes && cursor.Next(ctx); size += len(cursor.Current) {
		document := append(bson.Raw(nil), cursor.Current...)
		id := document.Lookup("_id")
		if _, again := s.seen[id.String()]; again {
			continue
		}
		s.seen[id.String()] = struct{}{}
		ev, err := reader.Read(document)
		if err == nil {
			s.Readable++
			if ev.Payload.Type != 0 {
				s.Payloads++
			}
			continue
		}
		bad, ids = append(bad, failure{ev, err}), append(ids, id)
	}
	if err := cursor.Err(); err != nil {
		return explain(err)
	}
	if len(bad) == 0 {
		return nil
	}
	known, err := c.Known(ctx, ids)
	if err != nil {
		return err
	}
	for i, f := range bad {
		if !known[i] {
			s.Unreadable++
			s.bad = append(s.bad, f)
		}
	}
	return nil
}

// judge fails if the unreadable share is too large, counted by aggregate or by event.
func (c Check) judge(s sample, byAggregate bool, of string) error {
	bad := s.Unreadable
	var reasons breakdown
	aggregates := make(map[string]struct{})
	for _, f := range s.bad {
		reasons.add(f.ev.Document, f.err)
		aggregates[f.aggregate()] = struct{}{}
	}
	if byAggregate {
		bad = len(aggregates)
	}
	if bad < sampleMinimum || float64(bad) <= c.Share*float64(s.Readable+bad) {
		return nil
	}
	return reasons.explain(c.Fields, s.Unreadable, s.Readable+s.Unreadable, of)
}
