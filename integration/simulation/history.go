package simulation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// History is what happened in a world, in the order of the virtual time. The zero value is
// ready to use.
type History struct {
	mu    sync.Mutex
	began time.Time
	lines []line
	// terms are the intervals in which an instance led.
	terms []term
	// deleted are the times at which the lease was deleted.
	deleted []time.Time
	// coordinator is the name of the projector that drives the builds, and followed when a publisher
	// began to follow the change stream for the first time.
	coordinator atomic.Value
	followed    time.Time
	// drained says that a publisher has reported that all events of a former collection are published.
	drained atomic.Bool
	// beside is the history of the second pipeline; nil if there is none.
	beside *History
}

// of returns the history of the first or the second pipeline.
func (h *History) of(pipeline int) *History {
	if pipeline == 0 {
		return h
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beside = &History{began: h.began}
	return h.beside
}

// line is an entry of the timeline.
type line struct {
	at   time.Duration
	who  string
	text string
}

// term is the time in which an instance published. ended is zero while it lasts.
type term struct {
	who          string
	began, ended time.Time
}

// add appends an entry to the timeline.
func (h *History) add(who, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line{time.Since(h.began), who, fmt.Sprintf(format, args...)})
}

// ended records the end of an instance.
func (h *History) ended(who string, status int) {
	h.add(who, "ended with status %d", status)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endTerm(who)
}

// deletedLease records that the lease of each pipeline is about to be deleted.
func (h *History) deletedLease() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deleted = append(h.deleted, time.Now())
	if h.beside != nil {
		h.beside.deletedLease()
	}
}

// endTerm ends the term of an instance, if it leads. The caller holds the lock.
func (h *History) endTerm(who string) {
	for i := range h.terms {
		if h.terms[i].who == who && h.terms[i].ended.IsZero() {
			h.terms[i].ended = time.Now()
		}
	}
}

// leader returns the name of an instance that leads at present; empty if none does.
func (h *History) leader() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.terms {
		if t.ended.IsZero() {
			return t.who
		}
	}
	return ""
}

// following returns when a publisher began to follow the change stream for the first time; zero if
// none has.
func (h *History) following() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.followed
}

// leaseDuration is the publishers' default. It is how long an instance may lead at most
// after its lease was deleted.
const leaseDuration = 15 * time.Second

// overlaps describes the terms that two instances had at the same time. The holder of a lease
// that was deleted detects that at its next renewal. If the lease of its successor is deleted before
// that, it can take the lease again, and then the term of the successor ends.
func (h *History) overlaps() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []string
	for i, a := range h.terms {
		for _, b := range h.terms[i+1:] {
			until := a.ended
			if until.IsZero() || !b.ended.IsZero() && b.ended.Before(until) {
				until = b.ended
			}
			excused := slices.ContainsFunc(h.deleted, func(at time.Time) bool {
				return !b.began.Before(at) && !until.IsZero() && until.Before(at.Add(leaseDuration))
			})
			if (a.ended.IsZero() || b.began.Before(a.ended)) && !excused {
				found = append(found, fmt.Sprintf("%s led from %v to %v, and %s began to lead at %v",
					a.who, a.began.Sub(h.began), a.ended.Sub(h.began), b.who, b.began.Sub(h.began)))
			}
		}
	}
	return found
}

// WriteTo writes the timeline.
func (h *History) WriteTo(w io.Writer) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	if h.beside != nil {
		h.beside.mu.Lock()
		defer h.beside.mu.Unlock()
		lines = slices.Concat(lines, h.beside.lines)
		slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	}
	var b bytes.Buffer
	for _, l := range lines {
		fmt.Fprintf(&b, "%10.3fs  %-16s %s\n", l.at.Seconds(), l.who, l.text)
	}
	return b.WriteTo(w)
}

// logWriter takes the log of an instance into the timeline, and the terms out of it.
type logWriter struct {
	history *History
	who     string

	mu   sync.Mutex
	over bool
}

func (h *History) logOf(who string) *logWriter { return &logWriter{history: h, who: who} }

// end discards what the instance logs later: it is dead.
func (l *logWriter) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.history.mu.Lock()
	l.history.endTerm(l.who)
	l.history.mu.Unlock()
}

// Write implements [io.Writer] for one line of zerolog.
func (l *logWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	if over {
		return len(b), nil
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return 0, fmt.Errorf("read a line of the log of %s: %w", l.who, err)
	}
	message, _ := fields["message"].(string)
	switch message {
	case "term began":
		l.history.mu.Lock()
		l.history.terms = append(l.history.terms, term{who: l.who, began: time.Now()})
		l.history.mu.Unlock()
	case "term ended":
		l.history.mu.Lock()
		l.history.endTerm(l.who)
		l.history.mu.Unlock()
	case "this pod coordinates the projections":
		l.history.coordinator.Store(l.who)
	case "following the change stream":
		l.history.mu.Lock()
		l.history.followed = cmp.Or(l.history.followed, time.Now())
		l.history.mu.Unlock()
	}
	if text := string(b); strings.Contains(text, "everything that the change stream had of it is published") && !strings.Contains(text, "no longer has the former collection") {
		l.history.drained.Store(true)
	}
	level, _ := fields["level"].(string)
	for _, name := range []string{"message", "level", "time", "service"} {
		delete(fields, name)
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s", level, message)
	for _, name := range names {
		fmt.Fprintf(&text, " %s=%v", name, fields[name])
	}
	l.history.add(l.who, "%s", text.String())
	return len(b), nil
}
