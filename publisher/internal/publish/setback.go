package publish

import (
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
)

const (
	// splitAfter is how many times a batch fails before it is halved without further
	// evidence, so that one message that the broker cannot process does not delay the
	// others.
	splitAfter = 3
	// outageRate is the approximate bound for the sends per second of waiting lanes while
	// the topic accepts nothing.
	outageRate = 50
)

// failure is one failed send of a batch.
type failure struct {
	fault Fault
	// timedOut says that the broker did not answer in time. broken says that the connection
	// is no longer usable.
	timedOut, broken bool
	err              error
	at               time.Time
	// events is the size of the batch. mixed says that a busy batch has several session keys.
	events int
	mixed  bool
	// connection is the id of the connection, and served its number of completed sends.
	connection, served uint64
	// before and accepted count the sends that the topic had accepted when this send began
	// and when it failed.
	before, accepted uint64
}

// isolation says how far the sends of a failing lane are kept apart from those of others; see
// the package's doc. Each level includes those before it.
type isolation int

const (
	// together: the events are sent in batches with those of lanes that do not fail.
	together isolation = iota
	// suspect: only in batches with other suspects, in separate send slots.
	suspect
	// risky: only on the last connection, because another send may cost it, too.
	risky
	// exclusive: one such send at a time. Sends have lost connections without a timeout, so
	// only a single send shows whether its batch is the reason.
	exclusive
)

// setback summarizes the failed sends of the events at a lane's head: how long the lane
// waits, in which batches its events may be sent, and whether its first event is at fault.
type setback struct {
	until     time.Time // the end of the lane's wait; zero if it does not wait
	retry     backoff.Backoff
	isolation isolation
	maxEvents int // of a batch; 0: no bound

	failures int       // in a row
	begun    time.Time // of the first failure
	last     failure
	// topicWorks says that the topic accepted other events before the last failure and since
	// the one before it. So the batch is the reason. Otherwise the topic may be.
	topicWorks      bool
	broken, timeout int // connections that the sends have lost, and those of them after a timeout

	event evidence // about the first event
}

// note adds a failure, and returns how long the lane must wait because of it.
func (s *setback) note(f *failure) time.Duration {
	since := f.before
	if s.failures > 0 {
		since = s.last.accepted
	}
	s.topicWorks = f.accepted > since
	s.failures++
	s.last = *f
	if s.begun.IsZero() {
		s.begun = f.at
	}
	s.isolate(f)
	switch {
	case f.events == 1:
		s.maxEvents = 1
		s.event.note(f, s.topicWorks)
	case f.fault == FaultRefused || s.failures >= splitAfter || s.topicWorks && s.isolation >= suspect:
		s.maxEvents = (f.events + 1) / 2
		s.retry.Reset() // halving the batch is progress
	}
	wait := s.retry.Next()
	if f.fault == FaultBusy && !f.mixed {
		wait = max(wait, busyWait)
	}
	return wait
}

// isolate sets the isolation after a failure. A batch can lose one connection by chance. The
// second loss makes it risky.
func (s *setback) isolate(f *failure) {
	if f.broken && f.fault != FaultBusy {
		s.broken++
	}
	if f.timedOut {
		s.timeout++
	}
	switch {
	case s.broken > max(1, s.timeout):
		s.isolation = exclusive
	case f.timedOut || s.broken > 1 || s.isolation >= risky:
		s.isolation = risky
	case f.fault == FaultRefused || f.fault == FaultTransient || s.failures >= splitAfter:
		s.isolation = suspect
	}
}

// spread is how much longer each of so many lanes waits, so that they do not send more often
// than outageRate together.
func spread(lanes int) time.Duration { return time.Duration(lanes) * time.Second / outageRate }

// setback gives the setback of a lane, a new one if it has none.
func (l *lanes) setback(ln *lane) *setback {
	if ln.setback == nil {
		ln.setback = &setback{retry: newBackoff()}
		l.setbacks++
	}
	return ln.setback
}
