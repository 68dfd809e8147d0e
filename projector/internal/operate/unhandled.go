package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

const (
	// newestEvents is how many events are compared with the projections by their types.
	newestEvents = 10_000
	// namedTypes is how many types a text names.
	namedTypes = 5
)

// unhandledType is a type of stored events that are in no read model, most likely by mistake.
type unhandledType struct {
	// Type is an event type, or an aggregate type of which there is no projection.
	Type   string `json:"type"`
	Events int64  `json:"events"`
	// Similar is the known type that is probably meant.
	Similar string `json:"similar,omitempty"`
}

// unhandledTypes returns the types that no source handles, those with the most events first. An
// event type that the section events declares is left out, unless it is handled, but not for the
// aggregate type of the event, which no source has. local are the projections of this process.
func unhandledTypes(stored []eventstore.TypeCount, sources []projection.Source, local []*projection.Projection) []unhandledType {
	var handled, aggregates, declared []string
	if len(local) > 0 {
		declared = local[0].DeclaredTypes()
	}
	for _, from := range sources {
		handled, aggregates = append(handled, from.EventTypes...), append(aggregates, from.AggregateType)
	}
	found := map[string]unhandledType{}
	for _, s := range stored {
		name, of := s.Types.EventType, s.Types.AggregateType
		concerned := slices.ContainsFunc(sources, func(from projection.Source) bool { return from.Concerns(of) })
		if slices.ContainsFunc(sources, func(from projection.Source) bool { return from.Concerns(of) && from.Handles(name) }) ||
			slices.Contains(declared, name) && (concerned || !slices.Contains(handled, name)) {
			continue
		}
		u := unhandledType{Type: "event type " + name, Similar: similar.Suggest(name, slices.Concat(handled, declared))}
		switch {
		case concerned:
		case of == "":
			u.Type, u.Similar = u.Type+" without an aggregate type", ""
		default:
			u = unhandledType{Type: "aggregate type " + of, Similar: similar.Suggest(of, aggregates)}
		}
		u.Events = found[u.Type].Events + s.Events
		found[u.Type] = u
	}
	return slices.SortedFunc(maps.Values(found), func(a, b unhandledType) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Type, b.Type))
	})
}

// unusedTypes says of which aggregate types of projections there is no event, although there are
// events of a similar type that the same projection does not take. sources are those of each
// projection. A type without a similar one may be that of future events.
func unusedTypes(stored []eventstore.TypeCount, sources [][]projection.Source) (found []string) {
	for _, of := range sources {
		var others []string
		used := map[string]bool{"": true}
		for _, s := range stored {
			name := s.Types.AggregateType
			used[name] = true
			if !slices.ContainsFunc(of, func(from projection.Source) bool { return from.Concerns(name) }) {
				others = append(others, name)
			}
		}
		for _, from := range of {
			if meant := similar.Suggest(from.AggregateType, others); meant != "" && !used[from.AggregateType] {
				found = append(found, fmt.Sprintf("aggregate type %s has no event, did you mean %s?", from.AggregateType, meant))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// listTypes names the first types.
func listTypes(types []unhandledType) string {
	var parts []string
	for i, t := range types {
		if i == namedTypes {
			parts = append(parts, fmt.Sprintf("and %d more", len(types)-i))
			break
		}
		meant := ""
		if t.Similar != "" {
			meant = ", did you mean " + t.Similar + "?"
		}
		parts = append(parts, fmt.Sprintf("%s (%s%s)", t.Type, cli.Count(t.Events, "event"), meant))
	}
	return strings.Join(parts, ", ")
}

// unhandled compares the newest events with the projections of the event store. unused is the
// result of unusedTypes.
func (e *Environment) unhandled(ctx context.Context, s *stored, entries map[string]*catalog.Entry) (found []unhandledType, unused []string, err error) {
	var sources [][]projection.Source
	for _, entry := range entries {
		var texts []string
		if entry.Live != nil {
			texts = append(texts, entry.Live.Text)
		}
		if entry.Building != nil {
			texts = append(texts, entry.Building.Text)
		}
		if entry.RetiredAt != nil || !e.Config.Pipeline().SameEvents(entry.Pipeline) {
			texts = nil
		}
		for _, text := range texts {
			scope, err := projection.ScopeOf(text)
			if err != nil {
				return nil, nil, err
			}
			sources = append(sources, scope.Sources)
		}
	}
	// The catalog does not have the types that are declared and not read.
	local, err := load(e.Config.Projections.Path, e.inCode)
	if err != nil || len(sources) == 0 {
		return nil, nil, err
	}
	types, err := eventstore.NewReader(s.Events, e.Config.EventFields(), e.Logger).Types(ctx, newestEvents)
	return unhandledTypes(types, slices.Concat(sources...), local), unusedTypes(types, sources), err
}
