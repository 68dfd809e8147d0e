package verify

import (
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// Accepted is a message that the broker accepted on the topic.
type Accepted struct {
	MessageID, SessionID string
	AggregateID          string
	EventID, Epoch       int64
	// At is when the broker accepted it.
	At time.Time
}

// TopicReport says whether the messages of a topic keep the publisher's promises.
type TopicReport struct {
	// Repeats counts the messages whose event had been accepted before, Epochs the distinct
	// terms that published.
	Repeats, Epochs int
	// Findings describe the first broken promises.
	Findings []string
}

// Topic compares the messages that a topic accepted, in the broker's order, with the
// events. Every event must have a message. The first messages of an aggregate's events must
// be in the order of eventId. An aggregate must stay in one session. No message may have an
// event that is not stored.
func Topic(accepted []Accepted, events []workload.Event) *TopicReport {
	report := new(TopicReport)
	find := func(format string, args ...any) {
		if len(report.Findings) < maxFindings {
			report.Findings = append(report.Findings, fmt.Sprintf(format, args...))
		}
	}
	highest := make(map[string]int64) // per aggregate, of those published so far
	sessions := make(map[string]string)
	epochs := make(map[int64]struct{})
	for _, m := range accepted {
		epochs[m.Epoch] = struct{}{}
		switch before := highest[m.AggregateID]; {
		case m.EventID <= before:
			report.Repeats++
		case m.EventID == before+1:
			highest[m.AggregateID] = m.EventID
		default:
			find("%s: event %d was first published after event %d", m.AggregateID, m.EventID, before)
			highest[m.AggregateID] = m.EventID
		}
		if session, known := sessions[m.AggregateID]; known && session != m.SessionID {
			find("%s: is in session %s and in session %s", m.AggregateID, session, m.SessionID)
		}
		sessions[m.AggregateID] = m.SessionID
	}
	stored := make(map[string]int64)
	for i := range events {
		stored[events[i].AggregateID] = max(stored[events[i].AggregateID], events[i].EventID)
	}
	for _, id := range sortedKeys(stored) {
		if highest[id] < stored[id] {
			find("%s: published up to event %d of %d", id, highest[id], stored[id])
		}
	}
	for _, id := range sortedKeys(highest) {
		if highest[id] > stored[id] {
			find("%s: event %d was published and is not stored", id, highest[id])
		}
	}
	report.Epochs = len(epochs)
	return report
}
