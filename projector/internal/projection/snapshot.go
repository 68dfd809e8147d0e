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
	return u.leads(eventType, func(t string) bool { return from.on[t] != nil })
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

// adviseOnSnapshots reports snapshots for which no projection has a rule, or only others of the
// same aggregates have one.
func (l *loader) adviseOnSnapshots() {
	for _, s := range l.sections["snapshots"] {
		for _, node := range s.node.Content {
			var with, without []*source
			names := map[*source]string{}
			for _, p := range l.found {
				for i := range p.sources {
					from := &p.sources[i]
					if names[from] = p.name; from.rules(l.upcast.all, node.Value) {
						with = append(with, from)
					} else {
						without = append(without, from)
					}
				}
			}
			if len(with) == 0 {
				s.place.advise(node, "no projection has a rule for %s: a history that begins with it has no document", node.Value)
			}
			for _, from := range without {
				if slices.ContainsFunc(with, from.related) {
					s.place.advise(node, "projection %s has no rule for %s: what its documents have of earlier events is lost when those are archived", names[from], node.Value)
				}
			}
		}
	}
}

// related reports whether two sources most likely fold the same aggregates.
func (from *source) related(other *source) bool {
	if from.aggregateType != "" && other.aggregateType != "" {
		return from.aggregateType == other.aggregateType
	}
	return slices.ContainsFunc(sortedKeys(from.on), func(eventType string) bool { return other.on[eventType] != nil })
}
