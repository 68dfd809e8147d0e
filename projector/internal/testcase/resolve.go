package testcase

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/similar"
)

// Projection is the information about a projection that resolving cases needs.
type Projection struct {
	Name, AggregateType string
	// EventTypes are the event types that it handles; nil means that it may handle any.
	EventTypes []string
}

func (p *Projection) handles(eventType string) bool {
	return p.EventTypes == nil || slices.Contains(p.EventTypes, eventType)
}

// Resolve checks the names in the cases. If an event has no aggregate type, Resolve sets
// that of the projections that handle the event, if all have the same. reasons are the
// allowed reasons of parked aggregates. Problems are added to the file's Problems.
func (f *File) Resolve(projections []Projection, reasons []string) {
	names := make([]string, len(projections))
	for i, p := range projections {
		names[i] = p.Name
	}
	for _, c := range f.Cases {
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
				f.known(e.Line, e.Column, c.Name, e.Projection, names)
			}
			for _, p := range s.Parked {
				f.known(p.Line, p.Column, c.Name, p.Projection, names)
				if p.Reason != "" && !slices.Contains(reasons, p.Reason) {
					f.problem(&yaml.Node{Line: p.Line, Column: p.Column}, c.Name, "there is no reason %s; the reasons are %s", p.Reason, strings.Join(reasons, ", "))
				}
			}
		}
	}
}

// impliedType returns the aggregate type of the projections that handle an event type;
// empty if there is none or more than one.
func impliedType(projections []Projection, eventType string) string {
	implied := ""
	for _, p := range projections {
		if p.AggregateType == "" || !p.handles(eventType) {
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
func (f *File) known(line, column int, name, projection string, names []string) {
	if !slices.Contains(names, projection) {
		f.problem(&yaml.Node{Line: line, Column: column}, name, "there is no projection %s in %s, only %s", projection, strings.Join(f.Projections, ", "), strings.Join(names, ", "))
	}
}

// unhandled returns notes about event types of a case that no projection handles.
func (c *Case) unhandled(projections []Projection) (notes []string) {
	var known []string
	for _, p := range projections {
		known = append(known, p.EventTypes...)
	}
	seen := map[string]bool{}
	for _, s := range c.Steps {
		for _, ev := range s.Given {
			handled := slices.ContainsFunc(projections, func(p Projection) bool { return p.handles(ev.EventType) })
			if !handled && !seen[ev.EventType] {
				seen[ev.EventType] = true
				notes = append(notes, fmt.Sprintf("no projection handles %s%s (line %d)", ev.EventType, similar.Meant(ev.EventType, known), ev.Line))
			}
		}
	}
	return notes
}
