package drain

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// lanes order the deliveries of a session by aggregate. Only one goroutine uses them.
type lanes struct {
	hold, gapTimeout, parkAfter time.Duration
	// failures is shared by all sessions.
	failures *failures
	// max is the load above which nothing more is taken from the inbox.
	max load
	// maxInLane bounds one lane in trouble, maxInTrouble all of them. Deliveries beyond
	// it are forgotten: they stay locked and unsettled, and are delivered again when the
	// session has been released.
	maxInLane, maxInTrouble load

	byKey map[string]*lane
	// queue are the lanes that are ready for a call, waiting those that are due later.
	// Lanes in a call are in neither.
	queue, waiting []*lane
	held           load
	inTrouble      load
	// forgotten counts forgotten deliveries. If there are any, the session must be released
	// at some time.
	forgotten int
	// several says that the session has had events of several aggregates. latest is the one that
	// came last.
	several bool
	latest  string
}

func newLanes(o *Options, f *failures) *lanes {
	bytes := max(o.BufferBytes/o.Slots, 1)
	s := &lanes{
		hold: o.Hold, gapTimeout: o.GapTimeout, parkAfter: o.ParkAfter,
		failures:     f,
		max:          load{4 * o.BatchSize, bytes},
		maxInLane:    load{o.BatchSize, bytes / 4},
		maxInTrouble: load{2 * o.BatchSize, bytes / 2},
		byKey:        make(map[string]*lane),
	}
	return s
}

// add adds a delivery.
func (s *lanes) add(d *Delivery, now time.Time) {
	key := d.Event.AggregateID
	l := s.byKey[key]
	if l == nil {
		l = &lane{key: key}
		if s.failures.known(key, now) {
			l.attempts = 1
		}
		s.several = s.several || s.latest != "" && s.latest != key
		s.latest = key
		s.byKey[key] = l
		s.queue = append(s.queue, l)
	}
	at, found := slices.BinarySearchFunc(l.deliveries, d.Event.EventID, func(have *Delivery, id int64) int {
		return cmp.Compare(have.Event.EventID, id)
	})
	if found {
		l.deliveries[at].duplicates = append(l.deliveries[at].duplicates, d)
	} else {
		l.deliveries = slices.Insert(l.deliveries, at, d)
	}
	s.grow(l, weigh(d))
	if l.hasGap() && at == 0 && !found {
		// The lane may wait for this event.
		s.wake(l)
		return
	}
	s.trim(l)
}

// grow adds messages to a lane's load.
func (s *lanes) grow(l *lane, weight load) {
	s.held.add(weight)
	l.load.add(weight)
	if l.troubled {
		s.inTrouble.add(weight)
	}
}

// shrink removes messages from a lane's load.
func (s *lanes) shrink(l *lane, weight load) {
	s.held.sub(weight)
	l.load.sub(weight)
	if l.troubled {
		s.inTrouble.sub(weight)
	}
}

// mark records whether a lane is in trouble.
func (s *lanes) mark(l *lane, troubled bool) {
	switch {
	case troubled && !l.troubled:
		s.inTrouble.add(l.load)
	case !troubled && l.troubled:
		s.inTrouble.sub(l.load)
	}
	l.troubled = troubled
}

// trim forgets messages beyond the bound of a lane in trouble, because they would take the
// room of other aggregates.
func (s *lanes) trim(l *lane) {
	for l.overflows && (l.load.exceeds(s.maxInLane) || s.inTrouble.exceeds(s.maxInTrouble)) && l.load.count > 1 {
		if !s.forget(l) {
			return
		}
	}
}

// forget drops the last message of a lane: a duplicate if the event has one, otherwise the
// event. Events in a call stay.
func (s *lanes) forget(l *lane) bool {
	last := len(l.deliveries) - 1
	d := l.deliveries[last]
	var weight load
	switch n := len(d.duplicates); {
	case n > 0:
		weight = weigh(d.duplicates[n-1])
		d.duplicates[n-1] = nil
		d.duplicates = d.duplicates[:n-1]
	case d.called:
		return false
	default:
		weight = weigh(d)
		l.deliveries[last] = nil
		l.deliveries = l.deliveries[:last]
	}
	s.shrink(l, weight)
	s.forgotten++
	return true
}

// room is how much more can be taken from the inbox.
func (s *lanes) room() load {
	room := s.max
	room.sub(s.held)
	return room
}

// wake makes a waiting lane ready.
func (s *lanes) wake(l *lane) {
	if !l.waiting() {
		return
	}
	l.due = time.Time{}
	s.waiting = slices.DeleteFunc(s.waiting, func(w *lane) bool { return w == l })
	s.queue = append(s.queue, l)
}

// wakeDue makes the waiting lanes ready that are due.
func (s *lanes) wakeDue(now time.Time) {
	for _, l := range slices.Clone(s.waiting) {
		if !l.due.After(now) {
			s.wake(l)
		}
	}
}

func (s *lanes) wait(l *lane, due time.Time) {
	l.due = due
	s.waiting = append(s.waiting, l)
}

// next returns the lanes for the next call, nil if there are none: whole lanes of one kind,
// up to limit events, in order of arrival. inTrouble says whether the call is one of lanes
// in trouble.
func (s *lanes) next(now time.Time, limit int, inTrouble bool) *call {
	var c *call
	maxLanes := math.MaxInt
	rest := s.queue[:0]
	for i, l := range s.queue {
		k := s.kind(l, now)
		if (k != fresh) != inTrouble || c != nil && (k != c.kind || len(c.lanes) >= min(maxLanes, bound(l))) {
			rest = append(rest, l)
			continue
		}
		if c == nil {
			c = &call{kind: k, batch: make([]*Delivery, 0, min(limit, s.held.count))}
		}
		maxLanes = min(maxLanes, bound(l))
		c.take(l, limit)
		if len(c.batch) == limit {
			rest = append(rest, s.queue[i+1:]...)
			break
		}
	}
	clear(s.queue[len(rest):])
	s.queue = rest
	return c
}

// bound is how many lanes may share a call with this lane.
func bound(l *lane) int {
	if l.maxLanes == 0 {
		return math.MaxInt
	}
	return l.maxLanes
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

// stuck reports whether nothing but lanes in trouble is left, all of which have been tried here
// and wait, while other aggregates can be written. A lane that will be given up next stays: its
// next session would begin with another attempt.
func (s *lanes) stuck(now time.Time) bool {
	return len(s.waiting) > 0 && len(s.waiting) == len(s.byKey) && !slices.ContainsFunc(s.waiting, func(l *lane) bool {
		return !l.overflows || !l.tried || !l.due.After(now) || s.kind(l, l.due) == givingUp
	})
}

// fresh reports whether a healthy lane is ready for a call.
func (s *lanes) fresh(now time.Time) bool {
	return slices.ContainsFunc(s.queue, func(l *lane) bool { return s.kind(l, now) == fresh })
}
