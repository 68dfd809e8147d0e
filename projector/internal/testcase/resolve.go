package testcase

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// source is a projection, or one source of a view.
type source struct {
	projection.Source
	name string
	// view says that documents are made of many aggregates.
	view bool
}

func sourcesOf(projections []*projection.Projection) (sources []source) {
	for _, p := range projections {
		for _, s := range p.Sources() {
			sources = append(sources, source{s, p.Name(), p.View() != nil})
		}
	}
	return sources
}

// Resolve checks the names in the cases. If an event has no aggregate type, Resolve sets
// that of the projections that handle the event, if all have the same. reasons are the
// allowed reasons of parked aggregates. Problems are added to the file's Problems.
func (f *File) Resolve(tested []*projection.Projection, reasons []string) {
	projections := sourcesOf(tested)
	var names []string
	for _, p := range tested {
		names = append(names, p.Name())
	}
	for _, c := range f.Cases {
		f.checkAbsent(c, projections)
		types := map[string]string{}
		for i := range c.Steps {
			s := &c.Steps[i]
			for j := range s.Given {
				ev := &s.Given[j]
				if ev.AggregateType == "" {
					ev.AggregateType = types[ev.AggregateID]
				}
				if ev.AggregateType == "" {
					ev.AggregateType = impliedType(projections, ev.EventType)
				}
				types[ev.AggregateID] = ev.AggregateType
			}
			for _, e := range s.Expect {
				f.known(e.at, c.Name, e.Projection, names)
			}
			for _, p := range s.Parked {
				f.known(p.at, c.Name, p.Projection, names)
				if p.Reason != "" && !slices.Contains(reasons, p.Reason) {
					f.problem(p.at, c.Name, "there is no reason %s; the reasons are %s", p.Reason, strings.Join(reasons, ", "))
				}
			}
		}
	}
}

// checkAbsent reports a problem if a case expects no document of an aggregate that has no
// event: that holds for every projection except views, whose documents have other keys, so it
// is most likely a misspelt id.
func (f *File) checkAbsent(c *Case, projections []source) {
	ids := map[string]bool{}
	for _, s := range c.Steps {
		for i := range s.Given {
			ids[s.Given[i].AggregateID] = true
		}
	}
	for _, s := range c.Steps {
		for _, e := range s.Expect {
			view := slices.ContainsFunc(projections, func(p source) bool { return p.name == e.Projection && p.view })
			if e.Document.Type == bson.TypeNull && !ids[e.AggregateID] && !view {
				f.problem(e.at, c.Name, "%s has no event in this case, so no projection can have a document of it: correct the id, or give it an event", e.AggregateID)
			}
		}
	}
}

// impliedType returns the aggregate type of the projections that handle an event type;
// empty if there is none or more than one.
func impliedType(projections []source, eventType string) string {
	implied := ""
	for _, p := range projections {
		if p.AggregateType == "" || !p.Handles(eventType) {
			continue
		}
		if implied != "" && implied != p.AggregateType {
			return ""
		}
		implied = p.AggregateType
	}
	return implied
}

// known reports a problem if a projection does not exist.
func (f *File) known(at *yaml.Node, name, projection string, names []string) {
	if !slices.Contains(names, projection) {
		f.problem(at, name, "there is no projection %s in %s, only %s", projection, strings.Join(f.Projections, ", "), strings.Join(names, ", "))
	}
}

// unhandled returns notes about events of a case that no projection handles.
func (c *Case) unhandled(projections []source) (notes []string) {
	var known []string
	for _, p := range projections {
		known = append(known, p.EventTypes...)
	}
	seen := map[string]bool{}
	for _, s := range c.Steps {
		for _, ev := range s.Given {
			if seen[ev.EventType] {
				continue
			}
			var types []string
			handled := false
			for _, p := range projections {
				if p.Handles(ev.EventType) {
					types = append(types, p.AggregateType)
					handled = handled || p.AggregateType == "" || p.AggregateType == ev.AggregateType
				}
			}
			seen[ev.EventType] = !handled
			switch {
			case handled:
			case types == nil:
				notes = append(notes, fmt.Sprintf("no projection handles %s%s (line %d)", ev.EventType, similar.Meant(ev.EventType, known), ev.Line))
			case ev.AggregateType == "":
				slices.Sort(types)
				notes = append(notes, fmt.Sprintf("%s (line %d) has no aggregateType, and there are rules for it of %s: name one", ev.EventType, ev.Line, strings.Join(slices.Compact(types), ", ")))
			default:
				slices.Sort(types)
				notes = append(notes, fmt.Sprintf("%s (line %d) is of an aggregate of the type %s, and there are rules for it only of %s", ev.EventType, ev.Line, ev.AggregateType, strings.Join(slices.Compact(types), ", ")))
			}
		}
	}
	return notes
}
