package operate

import (
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// ParkedKinds returns the kinds of parked aggregates of the projections. It leaves out retired
// ones: no projector writes them, so their read models are not up to date anyway, and nothing
// retries the aggregates.
func ParkedKinds(counts map[park.Group]int64, entries map[string]*generation.Entry) []park.Kind {
	return park.Kinds(counts, func(name string) bool { return entries[name] != nil && entries[name].RetiredAt == nil })
}

// ParkedConditions says which aggregates of the projections are parked.
func ParkedConditions(kinds []park.Kind) []health.Condition {
	found := make([]health.Condition, 0, len(kinds))
	for _, k := range kinds {
		verb := "are"
		if k.Aggregates == 1 {
			verb = "is"
		}
		found = append(found, health.Condition{
			Name: "parked", Subject: k.Projection + " " + k.Reason, State: health.Degraded,
			Text:   fmt.Sprintf("%s %s parked in projection %s (%s), so their read models are not up to date", cli.Count(k.Aggregates, "aggregate"), verb, k.Projection, k.Reason),
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
	return list + fmt.Sprintf(" Mend the cause, then \"projector parked retry --projection %s --reason %s\".", of, reason)
}
