package operate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// ParkedKind is a reason for which aggregates are parked, with the projections in which they are.
// One event that fails in several projections is one kind.
type ParkedKind struct {
	Reason string
	// Building is set for generations that are being built. Readers do not see them yet.
	Building bool
	// Projections are sorted, and Aggregates has the number of parked aggregates of each.
	Projections []string
	Aggregates  []int64
}

// ParkedKinds returns the kinds of parked aggregates of the projections' live and building
// generations. It leaves out retired projections: no projector writes them, so their read models
// are not up to date anyway, and nothing retries the aggregates.
func ParkedKinds(counts map[park.Group]int64, entries map[string]*catalog.Entry) []ParkedKind {
	groups := slices.SortedFunc(maps.Keys(counts), func(a, b park.Group) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Projection, b.Projection), cmp.Compare(a.Generation, b.Generation))
	})
	var kinds []ParkedKind
	for _, g := range groups {
		e, number := entries[g.Projection], max(g.Generation, catalog.First)
		if e == nil || e.RetiredAt != nil || g.Discarded || counts[g] == 0 {
			continue
		}
		building := e.Building != nil && e.Building.Generation == number
		if !building && (e.Live == nil || e.Live.Generation != number) {
			continue
		}
		at := slices.IndexFunc(kinds, func(k ParkedKind) bool { return k.Reason == g.Reason && k.Building == building })
		if at < 0 {
			at = len(kinds)
			kinds = append(kinds, ParkedKind{Reason: g.Reason, Building: building})
		}
		kinds[at].Projections = append(kinds[at].Projections, g.Projection)
		kinds[at].Aggregates = append(kinds[at].Aggregates, counts[g])
	}
	return kinds
}

// Counts lists the projections with their numbers of parked aggregates.
func (k *ParkedKind) Counts() string {
	each := make([]string, len(k.Projections))
	for i, of := range k.Projections {
		each[i] = fmt.Sprintf("%s: %d", of, k.Aggregates[i])
	}
	return strings.Join(each, ", ")
}

// Flags select the kind in the commands about parked aggregates.
func (k *ParkedKind) Flags() string {
	if len(k.Projections) > 1 {
		return "--reason " + k.Reason
	}
	return fmt.Sprintf("--projection %s --reason %s", k.Projections[0], k.Reason)
}

// ParkedConditions says which aggregates of the projections are parked.
func ParkedConditions(kinds []ParkedKind) []health.Condition {
	found := make([]health.Condition, 0, len(kinds))
	for i := range kinds {
		k := &kinds[i]
		subject, in, effect := k.Reason, "projection", "so their read models are not up to date"
		if k.Building {
			subject, in, effect = subject+" building", "the building generation of projection", "which readers do not see yet"
		}
		text := fmt.Sprintf("aggregates are parked in %ss (%s), %s", in, k.Counts(), effect)
		if len(k.Projections) == 1 {
			verb := "are"
			if k.Aggregates[0] == 1 {
				verb = "is"
			}
			text = fmt.Sprintf("%s %s parked in %s %s, %s", cli.Count(k.Aggregates[0], "aggregate"), verb, in, k.Projections[0], effect)
		}
		found = append(found, health.Condition{Name: "parked", Subject: subject, State: health.Degraded, Text: text, Remedy: k.Remedy()})
	}
	return found
}

// Remedy is what a person does about the aggregates.
func (k *ParkedKind) Remedy() string {
	reason := projection.Reason(k.Reason)
	list := fmt.Sprintf("\"projector parked list %s\" shows each with its error.", k.Flags())
	if reason.Seldom() {
		return list + fmt.Sprintf(" Mend the cause: they are retried automatically within an hour, and by \"projector parked retry %s\" at once.", k.Flags())
	}
	if reason.Resumes() {
		return list + " They are retried automatically."
	}
	damaged := ""
	if reason == projection.ReasonOperation || reason == projection.ReasonRejected {
		damaged = " (a document that was damaged by hand: repair it, or delete it and run \"projector verify --repair\")"
	}
	return list + fmt.Sprintf(" Mend the cause%s, then \"projector parked retry %s\".", damaged, k.Flags())
}
