package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/tracing"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// batch is one call of [Engine.Process].
type batch struct {
	*Engine
	// since is when the caller could not finish the events for the first time; zero for new
	// events.
	since time.Time
	// session has the states that may be assumed instead of loaded; nil if there are none.
	session *Session
	// targets are the engine's targets at the beginning of the call.
	targets    snapshot
	aggregates []*aggregate
	units      []*unit
	// places say for each event of the call which aggregate and index it has.
	places []eventPlace
	// folding is locked while a projection folds. The projections share the views of
	// events, which are not safe for concurrent use.
	folding sync.Mutex
}

type eventPlace struct {
	aggregate *aggregate
	index     int
}

// aggregate is an aggregate with its events in a batch.
type aggregate struct {
	id string
	// events are in the order of their ids.
	events []*projection.Event
	units  []*unit
}

// last is the highest id in the batch.
func (a *aggregate) last() int64 { return a.events[len(a.events)-1].EventID }

// raw is the aggregate's id with its type in the event store.
func (a *aggregate) raw() bson.RawValue { return a.events[0].RawAggregateID }

// settlement is the result of an event in one projection.
type settlement uint8

const (
	unsettled settlement = iota
	settledApplied
	settledIgnored
	settledDuplicate
	// settledParked: acknowledged, because the unit is parked.
	settledParked
	// settledDeferred: left to the job that builds the generation.
	settledDeferred
)

// settlements is their number.
const settlements = settledDeferred + 1

// unit is one aggregate in one projection, with its progress.
type unit struct {
	model.Unit
	known
	attempts
	target    *Target
	aggregate *aggregate

	// settled are the results of the aggregate's finished events, in order.
	settled []settlement
	// missing are events from the event store that are still to be folded.
	missing []*projection.Event
	// begin is the event with which the history begins in the event store, if that is a snapshot
	// beyond the watermark; otherwise 0.
	begin int64
	// run are the events being folded, and fold is the result.
	run  []*projection.Event
	fold projection.Fold

	// head is the event up to which the unit is resumed.
	head int64
	// trouble is the error that stops the unit in this call.
	trouble error
	// answered says that the store has answered, so that trouble comes from the unit alone.
	// unparkable says that the trouble comes from a promotion or from the parked list, so the
	// unit is not parked.
	answered, unparkable bool
	// conflict is the last refusal because another document has a unique value.
	conflict *projection.Error
	// held says that the unit waits for the event after watermark.
	held bool
	// repaired counts the written events that came from the event store.
	repaired int
	// cause is the reason for which the unit was parked.
	cause *projection.Error
}

// newUnit makes a unit of which nothing is known.
func newUnit(t *Target, aggregateID string) *unit {
	u := &unit{Unit: t.Unit(aggregateID), target: t}
	u.watermark, u.attempted = u.NoEvent(), u.NoEvent()
	return u
}

// known is what is known of a unit's state in the store.
type known struct {
	// document is the document as last loaded; nil after it is written. watermark is the
	// watermark as last loaded or written.
	document  bson.Raw
	watermark int64
	// updatedAt is the lastUpdatedAt of the document.
	updatedAt int64
	// assumes is how the state is known, until the write is answered. looked says that the
	// session was asked for the state in this call.
	assumes assumption
	looked  bool
	// foreign is the document of an older generation that was loaded.
	foreign *model.Foreign
}

// attempts are the writes of a unit that have not taken effect.
type attempts struct {
	// attempted is the target watermark of a write whose outcome is unknown.
	attempted int64
	// single folds one event at a time, to find the one that MongoDB rejects.
	single bool
	// stale counts consecutive writes that matched nothing because another writer was
	// faster. unknown counts the writes of this call whose outcome is unknown.
	stale, unknown int
}

// finished reports whether all events have a result.
func (u *unit) finished() bool { return len(u.settled) == len(u.aggregate.events) }

func (e *Engine) newBatch(targets snapshot, s *Session, events []*event.Event, since time.Time) *batch {
	b := &batch{Engine: e, since: since, session: s, targets: targets, places: make([]eventPlace, len(events))}
	byID := make(map[string]*aggregate)
	for _, ev := range events {
		a := byID[ev.AggregateID]
		if a == nil {
			a = &aggregate{id: ev.AggregateID}
			byID[ev.AggregateID] = a
			b.aggregates = append(b.aggregates, a)
		}
		a.events = append(a.events, projection.NewEvent(ev))
	}
	b.place(events, byID)
	for _, a := range b.aggregates {
		for _, t := range b.targets {
			if !slices.ContainsFunc(a.events, func(ev *projection.Event) bool { return t.Projection.Concerns(ev.Event) }) {
				continue
			}
			u := newUnit(t, a.id)
			u.aggregate, u.settled = a, make([]settlement, 0, len(a.events))
			a.units = append(a.units, u)
			b.units = append(b.units, u)
		}
	}
	return b
}

// place sorts the events of each aggregate, and records the place of each event of the
// call.
func (b *batch) place(events []*event.Event, byID map[string]*aggregate) {
	index := make(map[*event.Event]int, len(events))
	for _, a := range b.aggregates {
		slices.SortStableFunc(a.events, func(x, y *projection.Event) int { return cmp.Compare(x.EventID, y.EventID) })
		for i, ev := range a.events {
			index[ev.Event] = i
		}
	}
	for i, ev := range events {
		b.places[i] = eventPlace{aggregate: byID[ev.AggregateID], index: index[ev]}
	}
}

// verdicts returns the verdict on each event of the call. If the call is outdated, none of them
// is final.
func (b *batch) verdicts(err error) ([]model.Verdict, error) {
	verdicts := make([]model.Verdict, len(b.places))
	for i, place := range b.places {
		verdicts[i] = place.aggregate.verdict(place.index)
	}
	outdated := b.outdated()
	if outdated == nil {
		return verdicts, err
	}
	for i := range verdicts {
		if v := &verdicts[i]; v.Outcome == model.Done {
			*v = model.Verdict{}
		}
	}
	return verdicts, errors.Join(err, fmt.Errorf("nothing is acknowledged: %w", outdated))
}

// outdated returns why the events may lack a target: other processes do not count on this one, or
// the targets were replaced during the call. A process that is trusted again has set its targets
// before, so the targets are compared last.
func (b *batch) outdated() error {
	if b.trusted != nil {
		if err := b.trusted(); err != nil {
			return err
		}
	}
	if !slices.Equal(b.targets, b.snapshot()) {
		return model.ErrSuperseded
	}
	return nil
}

// verdict is Done if the event is settled in all targets.
func (a *aggregate) verdict(i int) model.Verdict {
	for _, u := range a.units {
		if i >= len(u.settled) {
			return model.Verdict{Outcome: model.Retry}
		}
	}
	return model.Verdict{Outcome: model.Done}
}

// count updates the metrics. The spans of traced events are exemplars.
func (b *batch) count(traced *tracing.Events) {
	now := time.Now()
	for _, a := range b.aggregates {
		applied := make([]bool, len(a.events))
		for _, u := range a.units {
			var counts [settlements]int
			for i, s := range u.settled {
				counts[s]++
				if u.target.Building {
					continue
				}
				applied[i] = applied[i] || s == settledApplied
			}
			b.add(u.Projection, countDeferred, counts[settledDeferred])
			if u.target.Building {
				continue
			}
			b.add(u.Projection, countApplied, counts[settledApplied])
			b.add(u.Projection, countIgnored, counts[settledIgnored])
			b.add(u.Projection, countDuplicate, counts[settledDuplicate])
			b.add(u.Projection, countParked, counts[settledParked])
			b.add(u.Projection, countRepaired, u.repaired)
		}
		for i, ev := range a.events {
			if applied[i] && !ev.Timestamp.IsZero() {
				traced.Of(ev.AggregateID, ev.EventID).Observe(b.metrics.age, max(0, now.Sub(ev.Timestamp).Seconds()))
			}
		}
	}
}

func (b *batch) add(projection, outcome string, n int) {
	if n > 0 {
		b.metrics.events.WithLabelValues(projection, outcome).Add(float64(n))
	}
}
