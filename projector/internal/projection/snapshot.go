package projection

import (
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// BeginsAt returns the id from which a history is folded, given its first readable event in the
// event store: the id of that event if its type is declared as a snapshot, otherwise first, which
// is the id of the first event of each aggregate. So the events before a snapshot are no gap.
func (p *Projection) BeginsAt(stored *event.Event, first int64) int64 {
	if slices.Contains(p.snapshots, stored.EventType) {
		return max(first, stored.EventID)
	}
	return first
}

// HasSnapshots reports whether a history may begin with another event than the first one.
func (p *Projection) HasSnapshots() bool { return len(p.snapshots) > 0 }

// Forgets reports whether a history may have no document from a snapshot on, though it has one
// from its first event on: because no rule of the projection is for the snapshot.
func (p *Projection) Forgets() bool {
	return p.HasSnapshots() && (p.InCode() || slices.ContainsFunc(p.snapshots, func(eventType string) bool {
		return slices.ContainsFunc(p.sources, func(s source) bool { return !s.rules(p.upcasts, eventType) })
	}))
}

// rules reports whether a rule of the source is for an event type, or for one that its events can
// become.
func (from *source) rules(u upcasts, eventType string) bool {
	return u.leads(eventType, func(t string) bool { return from.on[t] != nil }, map[string]bool{})
}

// snapshot reads one event type of the section snapshots.
func (p place) snapshot(node *yaml.Node) {
	p.snapshots = append(p.snapshots, p.text(node, func(eventType string) error {
		switch {
		case eventType == "":
			return errors.New("the event type is empty")
		case slices.Contains(p.snapshots, eventType):
			return errors.New("the event type is there twice")
		}
		return nil
	}))
}
