package operate

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
)

// sampleRanges is the number of places in the event store from which a sample is taken.
const sampleRanges = 64

// sampler folds the whole histories of a sample of aggregates by several definitions.
type sampler struct {
	comparisons []*comparison
	// max bounds the aggregates of the sample.
	max int
	// firstEvent is the id of the first event of each aggregate.
	firstEvent int64
	// open are the aggregates whose events are being folded.
	open map[string][]versus

	aggregates, events, unreadable int64
}

// takes reports whether an event's aggregate is in the sample, and begins its folds if it is the
// next one of the sample.
func (s *sampler) takes(ev *event.Event) bool {
	if _, ok := s.open[ev.AggregateID]; ok {
		return true
	}
	if s.aggregates == int64(s.max) || ev.AggregateID == "" {
		return false
	}
	s.aggregates++
	var folds []versus
	for _, c := range s.comparisons {
		if c.folds() {
			folds = append(folds, c.begin(s.firstEvent))
		}
	}
	s.open[ev.AggregateID] = folds
	return true
}

// add folds an event of an aggregate in the sample.
func (s *sampler) add(ev *event.Event, broken error) {
	s.events++
	if broken != nil {
		s.unreadable++
	}
	for _, v := range s.open[ev.AggregateID] {
		v.add(ev, broken)
	}
}

// end concludes the open aggregates. The order is fixed, so the examples are the same each
// time.
func (s *sampler) end() {
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		for _, v := range s.open[id] {
			v.end(id)
		}
	}
	clear(s.open)
}

// fromFile samples the first aggregates of a file. It holds their events in memory. It returns
// the number of events in the file.
func (s *sampler) fromFile(path string, fields event.Fields) (total int64, err error) {
	wanted := func(ev *event.Event) bool {
		total++
		return s.takes(ev)
	}
	err = readEventFile(path, fields, wanted, func(ev *event.Event, broken error) error {
		s.add(ev, broken)
		return nil
	})
	s.end()
	return total, err
}

// fromStore samples aggregates from all parts of the event store, one part after the other.
// It returns the approximate number of events in the store.
func (s *sampler) fromStore(ctx context.Context, reader *eventstore.Reader) (total int64, err error) {
	if total, err = reader.Count(ctx); err != nil {
		return 0, err
	}
	boundaries, err := reader.Split(ctx, min(sampleRanges, s.max))
	if err != nil {
		return 0, err
	}
	boundaries = append([]eventstore.Position{{}}, boundaries...)
	whole := s.max
	for i, from := range boundaries {
		var until eventstore.Position
		if i+1 < len(boundaries) {
			until = boundaries[i+1]
		}
		// If one range has too few aggregates, the next ones make up for it.
		left := len(boundaries) - i
		s.max = int(s.aggregates) + (whole-int(s.aggregates)+left-1)/left
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
		switch {
		case s.takes(ev):
			s.add(ev, broken)
		case ev.AggregateID != "":
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
