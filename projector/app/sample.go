package app

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
)

// sampleRanges is over how many places of the event store a sample spreads.
const sampleRanges = 64

// sampler folds the histories of a sample of aggregates, whole, by several definitions.
type sampler struct {
	comparisons []*comparison
	strict      bool
	// most is how many aggregates are sampled.
	most int
	// open are the aggregates that are being folded.
	open map[string][]versus

	aggregates, events, unreadable int64
}

// add folds an event, and reports whether its aggregate is in the sample.
func (s *sampler) add(ev *event.Event, broken error) bool {
	folds, ok := s.open[ev.AggregateID]
	if !ok {
		if s.aggregates == int64(s.most) || ev.AggregateID == "" {
			return false
		}
		s.aggregates++
		for _, c := range s.comparisons {
			if c.folds() {
				folds = append(folds, c.begin(s.strict))
			}
		}
		s.open[ev.AggregateID] = folds
	}
	s.events++
	if broken != nil {
		s.unreadable++
	}
	for _, v := range folds {
		v.add(ev, broken)
	}
	return true
}

// end concludes the aggregates that are being folded, in an order that makes the examples
// the same each time.
func (s *sampler) end() {
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		for _, v := range s.open[id] {
			v.end(id)
		}
	}
	clear(s.open)
}

// fromFile samples the first aggregates of a file. It holds their documents in memory
// until the end of the file. The result is how many events the file has.
func (s *sampler) fromFile(path string, fields event.Fields) (total int64, err error) {
	err = readEventFile(path, fields, func(ev *event.Event, broken error) error {
		total++
		s.add(ev, broken)
		return nil
	})
	s.end()
	return total, err
}

// fromStore samples aggregates from all parts of the event store, one after the other.
// The result is about how many events the store has.
func (s *sampler) fromStore(ctx context.Context, reader *eventstore.Reader) (total int64, err error) {
	if total, err = reader.Count(ctx); err != nil {
		return 0, err
	}
	boundaries, err := reader.Split(ctx, min(sampleRanges, s.most))
	if err != nil {
		return 0, err
	}
	boundaries = append([]eventstore.Position{{}}, boundaries...)
	whole := s.most
	for i, from := range boundaries {
		var until eventstore.Position
		if i+1 < len(boundaries) {
			until = boundaries[i+1]
		}
		// What one range lacks, the next ones may have.
		left := len(boundaries) - i
		s.most = int(s.aggregates) + (whole-int(s.aggregates)+left-1)/left
		if err := s.fromRange(ctx, reader, from, until); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// fromRange samples the first aggregates of a range.
func (s *sampler) fromRange(ctx context.Context, reader *eventstore.Reader, from, until eventstore.Position) error {
	err := readRange(ctx, reader, from, until, func(ev *event.Event, broken error) error {
		if _, same := s.open[ev.AggregateID]; !same {
			s.end()
		}
		if !s.add(ev, broken) && ev.AggregateID != "" {
			return errEnough
		}
		return nil
	})
	s.end()
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
