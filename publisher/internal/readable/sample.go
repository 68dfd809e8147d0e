package readable

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
)

const (
	// sampleEvents is how many of the oldest and how many of the newest events are read.
	sampleEvents = 50
	// sampleBytes bounds the bytes read of each, apart from the server's last reply.
	sampleBytes = 4 << 20
	// sampleBatch is the number of documents in a reply.
	sampleBatch = 10
	// sampleMinimum is how many unreadable events a sample needs to fail. A new store may
	// have only one or two events.
	sampleMinimum = 3
)

// CheckSample reads the oldest and the newest events of the collection, by _id. It fails
// with [ErrUnreadable] if more than share of them cannot be read with those field names.
// Other errors come from the request. Unreadable events count once for each aggregate,
// unless no event can be read at all. A store with fewer than three events passes.
func CheckSample(ctx context.Context, events *mongo.Collection, fields event.Fields, share float64) error {
	if (Limit{Share: share}).Off() {
		return nil
	}
	reader, err := event.NewReader(fields)
	if err != nil {
		return err
	}
	var newest, all sample
	seen := make(map[string]struct{})
	for _, direction := range []int{-1, 1} {
		documents, err := read(ctx, events, direction)
		if err != nil {
			return fmt.Errorf("read a sample of %s.%s: %w", events.Database().Name(), events.Name(), err)
		}
		for _, document := range documents {
			if _, again := seen[document.Lookup("_id").String()]; again {
				continue
			}
			seen[document.Lookup("_id").String()] = struct{}{}
			ev, err := reader.Read(document)
			all.add(&ev, err)
			if direction < 0 {
				newest.add(&ev, err)
			}
		}
	}
	if err := all.check(fields, share, all.good > 0, "events of a sample of the store"); err != nil {
		return err
	}
	return newest.check(fields, share, true, "of the newest events of the store")
}

// read reads the first events in the order of _id: 1 for the oldest, -1 for the newest.
func read(ctx context.Context, events *mongo.Collection, direction int) ([]bson.Raw, error) {
	cursor, err := events.Find(ctx, bson.D{}, options.Find().
		SetSort(bson.D{{Key: "_id", Value: direction}}).SetLimit(sampleEvents).SetBatchSize(sampleBatch))
	if err != nil {
		return nil, err
	}
	var documents []bson.Raw
	for size := 0; size < sampleBytes && cursor.Next(ctx); size += len(cursor.Current) {
		documents = append(documents, append(bson.Raw(nil), cursor.Current...))
	}
	if err := cursor.Err(); err != nil {
		return nil, err
	}
	return documents, cursor.Close(ctx)
}

// sample counts the events of a sample.
type sample struct {
	good, bad  int
	aggregates map[string]struct{}
	reasons    breakdown
}

func (s *sample) add(ev *event.Event, err error) {
	if err == nil {
		s.good++
		return
	}
	s.bad++
	s.reasons.add(ev.Document, err)
	if s.aggregates == nil {
		s.aggregates = make(map[string]struct{})
	}
	key := ev.RawAggregateID
	if key.Type == 0 {
		key = ev.Document.Lookup("_id")
	}
	s.aggregates[key.String()] = struct{}{}
}

// check fails if the unreadable share is too large, counted by aggregate or by event.
func (s *sample) check(fields event.Fields, share float64, byAggregate bool, of string) error {
	bad := s.bad
	if byAggregate {
		bad = len(s.aggregates)
	}
	if bad < sampleMinimum || float64(bad) <= share*float64(s.good+bad) {
		return nil
	}
	return s.reasons.explain(fields, s.bad, s.good+s.bad, of)
}
