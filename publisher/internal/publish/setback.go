package publish

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/event"
)

const (
	// splitAfter is how many times a batch fails before it is halved without further
	// evidence, so that one message that the broker cannot process does not delay the
	// others.
	splitAfter = 3
	// maxReasons is how many different errors of an event are kept for its
	// quarantine.
	maxReasons = 3
	// aloneFor is how long an event must have been refused while no other event was there
	// that the topic could accept. It doubles with each event that is quarantined in this
	// way, until the topic accepts one.
	aloneFor = time.Minute
	// outageRate is the approximate bound for the sends per second of waiting lanes while
	// the topic accepts nothing.
	outageRate = 50
)

// setback summarizes the failed sends of the events at a lane's head: how long the lane
// waits, in which batches its events may be sent, and whether its first event is at fault.
//
// The event is at fault if the topic refuses it explicitly and repeatedly, although the topic
// and the connection work. Any other failure says nothing about the event: it waits.
// The topic works if it accepts other events between the failures. The connection works if
// it served others in between, or if a second connection fails in the same way.
type setback struct {
	waits     bool // the lane waits until notBefore
	notBefore time.Time
	retry     backoff.Backoff

	failures int    // in a row
	accepted uint64 // sends that the topic had accepted at the last failure
	// explained says that the topic accepted other events before the last failure and
	// since the one before it: the topic works, and the batch is the reason.
	explained bool
	refused   bool      // the last failure was an explicit refusal
	err       error     // the last failure
	begun     time.Time // of the first failure
	suspect   bool      // the events are kept out of the batches of other lanes
	searched  bool      // the quarantine was searched for the event
	held      bool      // too many others are in the quarantine for this event to go there
	risky     bool      // another send may cost a connection, too
	broken    int       // connections that the sends have cost
	timedOut  int       // those of them that were given up after a timeout
	most      int       // events of a batch; 0: no bound

	// The following fields are about the first event only.

	since    time.Time // its first refusal
	attempts int       // refusals while the topic accepted others
	unaided  int       // refusals while the topic accepted no other
	reasons  []string  // the different errors

	connection, served uint64 // of its last failure alone; 0 before
	sound              bool   // the connection is not the reason
}

// note adds a failure.
func (s *setback) note(f failure) {
	since := f.before
	if s.failures > 0 {
		since = s.accepted
	}
	s.explained = f.accepted > since
	s.failures++
	s.err = f.err
	if s.begun.IsZero() {
		s.begun = f.at
	}
	s.accepted = f.accepted
	s.refused = f.fault == FaultRefused
	if f.broken {
		s.broken++
	}
	if f.timedOut {
		s.timedOut++
	}
	// A batch can lose one connection by chance. The second loss makes it risky.
	s.risky = s.risky || f.timedOut || s.broken > 1
	s.suspect = s.suspect || s.risky || s.refused || f.fault == FaultTransient || s.failures >= splitAfter

	if f.events == 1 {
		s.noteAlone(f)
	}
	switch {
	case f.events > 1 && (s.refused || s.failures >= splitAfter || s.explained && s.suspect):
		s.most = (f.events + 1) / 2
		s.retry.Reset() // halving the batch is progress
	case f.events == 1:
		s.most = 1
	}
	wait := s.retry.Next()
	if f.fault == FaultBusy && !f.mixed {
		wait = max(wait, busyWait)
	}
	s.notBefore = f.at.Add(wait)
}

// alone reports whether the send must wait until no other such send is in flight. If sends
// lose connections without a timeout, only a single send shows whether its batch is the
// reason.
func (s *setback) alone() bool { return s.broken > max(1, s.timedOut) }

// noteAlone adds a failure of the first event alone.
func (s *setback) noteAlone(f failure) {
	if s.connection != 0 && (f.connection != s.connection || f.served > s.served) {
		s.sound = true
	}
	s.connection, s.served = f.connection, f.served
	if !s.refused {
		return
	}
	if s.since.IsZero() {
		s.since = f.at
	}
	if s.explained {
		s.attempts++
	} else {
		s.unaided++
	}
	if reason := f.err.Error(); len(s.reasons) < maxReasons && !slices.Contains(s.reasons, reason) {
		s.reasons = append(s.reasons, reason)
	}
}

// conclusive reports whether the event is at fault and must not be sent again. alone is how
// long it must have failed if the topic accepted no other event meanwhile; 0 if it is never
// at fault then, because other events fail too.
func (s *setback) conclusive(now time.Time, attempts int, alone time.Duration) bool {
	switch {
	case !s.sound || !s.refused:
		return false
	case s.attempts >= attempts:
		return true
	default:
		return alone > 0 && s.attempts+s.unaided >= attempts && now.Sub(s.since) >= alone
	}
}

// explain is the reason for the quarantine.
func (s *setback) explain(now time.Time) *event.ContractError {
	return &event.ContractError{
		Reason: event.ReasonRefused,
		Detail: fmt.Sprintf("the topic refused the event in %d attempts over %s: %s",
			s.attempts+s.unaided, now.Sub(s.since).Round(time.Millisecond), strings.Join(s.reasons, "; ")),
	}
}

// setback gives the setback of a lane, a new one if it has none.
func (l *lanes) setback(ln *lane) *setback {
	if ln.setback == nil {
		ln.setback = &setback{retry: newBackoff()}
		l.setbacks++
	}
	return ln.setback
}
