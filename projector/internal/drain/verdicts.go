package drain

import (
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Pauses of a lane between two attempts.
const (
	firstRetryPause  = 100 * time.Millisecond
	firstRepairPause = 200 * time.Millisecond
	maxLanePause     = 5 * time.Second
)

// hungShare is the divisor for the size of a call that hung: its lanes are called again
// in smaller and smaller groups, until the lane that hangs is alone.
const hungShare = 8

// apply applies the verdicts of a call that has returned, and returns the deliveries that
// can be settled.
func (s *lanes) apply(c *call, now time.Time) []*Delivery {
	settled := make([]*Delivery, 0, len(c.batch))
	start := 0
	for _, l := range c.lanes {
		end := start + 1
		for end < len(c.batch) && c.batch[end].Event.AggregateID == l.key {
			end++
		}
		settled = s.applyLane(settled, c, l, start, end, now)
		start = end
	}
	return settled
}

func (s *lanes) applyLane(settled []*Delivery, c *call, l *lane, start, end int, now time.Time) []*Delivery {
	// open is the first event that is not finished.
	open := -1
	for i := start; i < end; i++ {
		d, v := c.batch[i], c.verdicts[i]
		d.called = false
		if v.Outcome.Final() {
			d.settled = true
			settled = append(settled, d)
			s.shrink(l, weigh(d))
		} else if open < 0 {
			open = i
		}
	}
	l.deliveries = slices.DeleteFunc(l.deliveries, func(d *Delivery) bool { return d.settled })
	if open < 0 || open > start {
		l.attempts, l.maxLanes, l.givenUp, l.overflows, l.tried = 0, 0, false, false, false
		s.failures.recovered(l.key)
	}
	switch {
	case len(l.deliveries) == 0:
		s.mark(l, false)
		delete(s.byKey, l.key)
	case open < 0:
		// The call had no room for the rest, or the rest arrived later.
		l.gapSince = time.Time{}
		s.mark(l, false)
		s.queue = append(s.queue, l)
	case c.verdicts[open].Outcome == model.Deferred:
		s.queue = append(s.queue, l)
	case c.verdicts[open].Outcome == model.Gap:
		s.gap(l, c, open, now)
	default:
		s.failed(l, c, now)
	}
	return settled
}

// failed makes a lane wait after a store has failed.
func (s *lanes) failed(l *lane, c *call, now time.Time) {
	l.gapSince, l.tried = time.Time{}, true
	l.attempts++
	if now.Sub(c.begun) >= slowCall {
		l.maxLanes = max(len(c.lanes)/hungShare, 1)
	}
	lasted, few := s.failures.failed(l.key, now)
	l.givenUp = few && lasted >= s.parkAfter
	// If nothing else is written either, room for others would not help, and the broker
	// would only redeliver the forgotten events.
	l.overflows = lasted > 0
	s.mark(l, true)
	s.trim(l)
	s.wait(l, now.Add(backoff.After(firstRetryPause, maxLanePause, l.attempts)))
}

// gap lets a lane wait for the event that its first unfinished event lacks.
func (s *lanes) gap(l *lane, c *call, open int, now time.Time) {
	l.givenUp = false
	if missing := c.verdicts[open].Missing; !l.hasGap() || l.missing != missing {
		l.missing, l.gapSince, l.attempts = missing, now, 0
	}
	l.gapSince = s.failures.gap(l.key, l.missing, l.gapSince, now)
	s.mark(l, true)
	due := l.gapSince.Add(s.hold)
	if c.kind == repairing || c.kind == givingUp || !due.After(now) {
		l.attempts++
		due = now.Add(backoff.After(firstRepairPause, maxLanePause, l.attempts))
		if end := l.gapSince.Add(s.gapTimeout); end.After(now) && end.Before(due) {
			due = end
		}
		// A younger gap usually closes soon. After a message is forgotten, the session must
		// be released.
		l.overflows, l.tried = true, l.tried || c.kind == repairing || c.kind == givingUp
		s.trim(l)
	}
	s.wait(l, due)
	if l.head() < c.batch[open].Event.EventID {
		// The lane may wait for an event that arrived during the call.
		s.wake(l)
	}
}
