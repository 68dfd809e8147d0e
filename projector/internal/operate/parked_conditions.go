package operate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// ParkedKind is a generation with a reason for which aggregates are parked in it.
type ParkedKind struct {
	Projection, Reason string
	// Building is set for the generation that is being built. Readers do not see it yet.
	Building   bool
	Aggregates int64
}

// ParkedKinds returns the kinds of parked aggregates of the projections' live and building
// generations. It leaves out retired projections: no projector writes them, so their read models
// are not up to date anyway, and nothing retries the aggregates.
func ParkedKinds(counts map[park.Group]int64, entries map[string]*catalog.Entry) []ParkedKind {
	groups := slices.SortedFunc(maps.Keys(counts), func(a, b park.Group) int {
		return cmp.Or(cmp.Compare(a.Projection, b.Projection), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Generation, b.Generation))
	})
	var kinds []ParkedKind
	for _, g := range groups {
		e, number := entries[g.Projection], max(g.Generation, catalog.First)
		if e == nil || e.RetiredAt != nil || g.Discarded || counts[g] == 0 {
			continue
		}
		building := e.Building != nil && e.Building.Generation == number
		if building || e.Live != nil && e.Live.Generation == number {
			kinds = append(kinds, ParkedKind{Projection: g.Projection, Reason: g.Reason, Building: building, Aggregates: counts[g]})
		}
	}
	return kinds
}

// ParkedConditions says which aggregates of the projections are parked.
func ParkedConditions(kinds []ParkedKind) []health.Condition {
	found := make([]health.Condition, 0, len(kinds))
	for _, k := range kinds {
		verb := "are"
		if k.Aggregates == 1 {
			verb = "is"
		}
		subject, in, effect := k.Projection+" "+k.Reason, "projection", "so their read models are not up to date"
		if k.Building {
			subject, in, effect = subject+" building", "the building generation of projection", "which readers do not see yet"
		}
		found = append(found, health.Condition{
			Name: "parked", Subject: subject, State: health.Degraded,
			Text:   fmt.Sprintf("%s %s parked in %s %s (%s), %s", cli.Count(k.Aggregates, "aggregate"), verb, in, k.Projection, k.Reason, effect),
			Remedy: parkedRemedy(k.Projection, k.Reason),
		})
	}
	return found
}

// parkedRemedy is what a person does about parked aggregates.
func parkedRemedy(of, reason string) string {
	list := fmt.Sprintf("\"projector parked list --projection %s --reason %s\" shows each with its error.", of, reason)
	if projection.Reason(reason).Seldom() {
		return list + fmt.Sprintf(" Mend the cause: they are retried automatically within an hour, and by \"projector parked retry --projection %s --reason %s\" at once.", of, reason)
	}
	if projection.Reason(reason).Resumes() {
		return list + " They are retried automatically."
	}
	damaged := ""
	if r := projection.Reason(reason); r == projection.ReasonOperation || r == projection.ReasonRejected {
		damaged = " (a document that was damaged by hand: repair it, or delete it and run \"projector verify --repair\")"
	}
	return list + fmt.Sprintf(" Mend the cause%s, then \"projector parked retry --projection %s --reason %s\".", damaged, of, reason)
}
