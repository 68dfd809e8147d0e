package drain

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// lane is what a session holds of one aggregate: distinct events, ascending.
type lane struct {
	key        string
	deliveries []*Delivery
	// due is when a waiting lane is looked at again; zero while it is ready.
	due time.Time
	// attempts counts what has failed since something of the lane was done.
	attempts int
	// gapAt is the event that lacks its predecessor since gapSince; 0 where none
	// does.
	gapAt    int64
	gapSince time.Time
	// cause is what the handler last said about it.
	cause error
	// load is what its deliveries weigh.
	load load
}

func (l *lane) ready() bool { return l.due.IsZero() }

// load is what messages weigh: those of deliveries and of their twins.
type load struct{ count, bytes int }

// weigh gives the load of a delivery.
func weigh(d *Delivery) load {
	w := load{1, d.size}
	for _, twin := range d.twins {
		w.add(weigh(twin))
	}
	return w
}

func (w *load) add(more load) { w.count, w.bytes = w.count+more.count, w.bytes+more.bytes }
func (w *load) sub(less load) { w.count, w.bytes = w.count-less.count, w.bytes-less.bytes }
func (w load) exceeds(most load) bool {
	return w.count > most.count || w.bytes > most.bytes
}

// lanes order the deliveries of a session by aggregate. They belong to one
// goroutine.
type lanes struct {
	hold, patience time.Duration
	// most is what is held before nothing more is taken in.
	most load
	// mostInGap bounds what one lane holds behind a gap that has outlasted the hold,
	// mostInGaps what all lanes with gaps do. Beyond it deliveries are forgotten: they
	// stay locked, unsettled, and come again when the session has been released.
	mostInGap, mostInGaps load

	byKey   map[string]*lane
	queue   []*lane
	waiting []*lane
	held    load
	inGaps  load
	// forgotten counts deliveries for which the session has to be released some day.
	forgotten int
	// closed says, in an increasing sequence, from which event on those of an aggregate
	// are forgotten, because one is: nobody would notice that it is missing.
	closed map[string]int64
}

func newLanes(o *Options) *lanes {
	bytes := max(o.BufferBytes/o.Slots, 1)
	s := &lanes{
		hold: o.Hold, patience: o.GapPatience,
		most:       load{4 * o.BatchSize, bytes},
		mostInGap:  load{o.BatchSize, bytes / 4},
		mostInGaps: load{2 * o.BatchSize, bytes / 2},
		byKey:      make(map[string]*lane),
	}
	if o.Sequence == event.SequenceIncreasing {
		s.closed = make(map[string]int64)
	}
	return s
}

// add takes a delivery in.
func (s *lanes) add(d *Delivery) {
	key := d.Event.AggregateID
	if from, closed := s.closed[key]; closed && d.Event.EventID >= from {
		s.forgotten++
		return
	}
	l := s.byKey[key]
	if l == nil {
		l = &lane{key: key}
		s.byKey[key] = l
		s.queue = append(s.queue, l)
	}
	at, found := slices.BinarySearchFunc(l.deliveries, d.Event.EventID, func(have *Delivery, id int64) int {
		return compare(have.Event.EventID, id)
	})
	if found {
		l.deliveries[at].twins = append(l.deliveries[at].twins, d)
	} else {
		l.deliveries = slices.Insert(l.deliveries, at, d)
	}
	weight := weigh(d)
	s.held.add(weight)
	l.load.add(weight)
	if l.gapAt == 0 {
		return
	}
	s.inGaps.add(weight)
	if at == 0 && !found {
		// It may be what the lane waits for.
		s.wake(l)
		return
	}
	s.trim(l)
}

// trim forgets what is too much behind a gap that has outlasted the hold: it would
// keep everything else out. Of one that is younger nothing is forgotten: it mostly
// closes before long, and a session that has forgotten something has to be released.
func (s *lanes) trim(l *lane) {
	for l.attempts > 0 && (l.load.exceeds(s.mostInGap) || s.inGaps.exceeds(s.mostInGaps)) && l.load.count > 1 {
		s.forget(l)
	}
}

// forget gives up the last that a lane with a gap holds: a twin where the event has
// one, else the event.
func (s *lanes) forget(l *lane) {
	last := len(l.deliveries) - 1
	d := l.deliveries[last]
	var weight load
	if twins := len(d.twins); twins > 0 {
		weight = weigh(d.twins[twins-1])
		d.twins[twins-1] = nil
		d.twins = d.twins[:twins-1]
	} else {
		weight = weigh(d)
		if s.closed != nil {
			s.closed[l.key] = d.Event.EventID
		}
		l.deliveries[last] = nil
		l.deliveries = l.deliveries[:last]
	}
	s.held.sub(weight)
	l.load.sub(weight)
	s.inGaps.sub(weight)
	s.forgotten++
}

// room is how much more is to be taken in.
func (s *lanes) room() load {
	room := s.most
	room.sub(s.held)
	return room
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// wake makes a waiting lane ready.
func (s *lanes) wake(l *lane) {
	if l.ready() {
		return
	}
	l.due = time.Time{}
	s.waiting = slices.DeleteFunc(s.waiting, func(w *lane) bool { return w == l })
	s.queue = append(s.queue, l)
}

// batch gives what is to be handled next, and whether gaps in it are to be
// repaired: whole lanes of one kind as far as most allows, first come first
// served.
func (s *lanes) batch(now time.Time, most int) (batch []*Delivery, repair bool) {
	for _, l := range slices.Clone(s.waiting) {
		if !l.due.After(now) {
			s.wake(l)
		}
	}
	if len(s.queue) == 0 {
		return nil, false
	}
	kind := s.kind(s.queue[0], now)
	batch = make([]*Delivery, 0, min(most, s.held.count))
	for _, l := range s.queue {
		if len(batch) == most {
			break
		}
		if s.kind(l, now) == kind {
			batch = append(batch, l.deliveries[:min(len(l.deliveries), most-len(batch))]...)
		}
	}
	return batch, kind == repairing
}

// kind is what a lane shares batches with. A lane in trouble has company of its
// own, so that it does not hold up the others more often than its backoff allows.
type kind uint8

const (
	fresh kind = iota
	retrying
	repairing
)

func (s *lanes) kind(l *lane, now time.Time) kind {
	switch {
	case l.gapAt != 0 && now.Sub(l.gapSince) >= s.hold:
		return repairing
	case l.gapAt == 0 && l.attempts > 0:
		return retrying
	}
	return fresh
}

// settlement is what is to be done with a delivery's message.
type settlement struct {
	*Delivery
	Verdict
}

// apply takes the verdicts of a batch and gives what can be settled. The lanes of
// the batch are those at the head of the queue, in their order.
func (s *lanes) apply(batch []*Delivery, verdicts []Verdict, repaired bool, now time.Time) []settlement {
	settled := make([]settlement, 0, len(batch))
	for start := 0; start < len(batch); {
		l := s.byKey[batch[start].Event.AggregateID]
		end := start + 1
		for end < len(batch) && batch[end].Event.AggregateID == l.key {
			end++
		}
		settled = s.applyLane(settled, l, batch[start:end], verdicts[start:end], repaired, now)
		start = end
	}
	s.queue = slices.DeleteFunc(s.queue, func(l *lane) bool { return len(l.deliveries) == 0 || !l.ready() })
	return settled
}

func (s *lanes) applyLane(settled []settlement, l *lane, batch []*Delivery, verdicts []Verdict, repaired bool, now time.Time) []settlement {
	if l.gapAt != 0 {
		s.inGaps.sub(l.load)
	}
	rest := l.deliveries[:0:0]
	var first Verdict
	for i, d := range batch {
		if v := verdicts[i]; v.Outcome == Done || v.Outcome == Poison {
			settled = append(settled, settlement{d, v})
			weight := weigh(d)
			s.held.sub(weight)
			l.load.sub(weight)
			continue
		}
		if len(rest) == 0 {
			first = verdicts[i]
		}
		rest = append(rest, d)
	}
	progress := len(rest) < len(batch)
	l.deliveries = append(rest, l.deliveries[len(batch):]...)
	if progress {
		l.attempts = 0
	}
	switch {
	case len(l.deliveries) == 0:
		delete(s.byKey, l.key)
	case len(rest) == 0:
		// Only the batch was full.
		l.gapAt = 0
	case first.Outcome == Gap:
		l.cause = first.Err
		s.inGaps.add(l.load)
		s.gap(l, repaired, now)
	default:
		l.gapAt = 0
		l.attempts++
		s.wait(l, now.Add(backoff(100*time.Millisecond, 5*time.Second, l.attempts)))
	}
	return settled
}

// gap lets a lane wait for the predecessor of its first event.
func (s *lanes) gap(l *lane, repaired bool, now time.Time) {
	if head := l.deliveries[0].Event.EventID; l.gapAt != head {
		l.gapAt, l.gapSince, l.attempts = head, now, 0
	}
	due := l.gapSince.Add(s.hold)
	if repaired || !due.After(now) {
		l.attempts++
		due = now.Add(backoff(200*time.Millisecond, 5*time.Second, l.attempts))
		s.trim(l)
	}
	s.wait(l, due)
}

func (s *lanes) wait(l *lane, due time.Time) {
	l.due = due
	s.waiting = append(s.waiting, l)
}

// nextDue is when the first of the waiting lanes is due, if any waits.
func (s *lanes) nextDue() (time.Time, bool) {
	var first time.Time
	for _, l := range s.waiting {
		if first.IsZero() || l.due.Before(first) {
			first = l.due
		}
	}
	return first, !first.IsZero()
}

// stuck gives a lane whose gap has outlasted the patience, if there is one.
func (s *lanes) stuck(now time.Time) *lane {
	for _, l := range s.waiting {
		if l.gapAt != 0 && now.Sub(l.gapSince) >= s.patience {
			return l
		}
	}
	return nil
}

// onlyGaps tells whether nothing is left but what waits for a predecessor.
func (s *lanes) onlyGaps() bool {
	return len(s.queue) == 0 && !slices.ContainsFunc(s.waiting, func(l *lane) bool { return l.gapAt == 0 })
}

// backoff doubles from first to most with the attempts, from 1 on, less up to a
// quarter so that many do not come back at once.
func backoff(first, most time.Duration, attempts int) time.Duration {
	d := first << min(attempts-1, 16)
	d = min(d, most)
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}
