package operate

import (
	"cmp"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// wrongReadModels is the name of the condition of [WrongConditions].
const wrongReadModels = "wrong-read-models"

// WrongConditions says which live generations have read models that a verification has found wrong
// and has not repaired, given the verifications that are done. A later verification of the same
// aggregates, or of all, replaces an earlier one.
func WrongConditions(verifications []job.Job, entries map[string]*catalog.Entry) []health.Condition {
	type part struct {
		projection, aggregate string
		sample                float64
	}
	replaced := map[part]bool{}
	var found []health.Condition
	for _, j := range slices.SortedFunc(slices.Values(verifications), func(a, b job.Job) int { return b.Created.Compare(a.Created) }) {
		e := entries[j.Projection]
		if e == nil || e.RetiredAt != nil || e.Live == nil || e.Live.Generation != j.Generation {
			continue
		}
		var p history.Params
		_ = bson.Unmarshal(j.Params, &p) // the zero value is that of all aggregates
		all, of := part{j.Projection, "", 1}, part{j.Projection, p.Aggregate, cmp.Or(p.Sample, 1)}
		if replaced[all] || replaced[of] {
			continue
		}
		replaced[of] = true
		if wrong := history.Wrong(j.Counts) - j.Counts[history.CountRepaired]; wrong > 0 {
			found = append(found, health.Condition{
				Name: wrongReadModels, Subject: j.Projection, State: health.Degraded, Since: j.Finished,
				Text:   fmt.Sprintf("verification %s has left %s wrong", j.ID, cli.Count(wrong, "read model")),
				Remedy: fmt.Sprintf("\"projector verify --projection %s --repair\" compares all again and repairs them. A verification of the same aggregates, or of all, that leaves none wrong ends the condition.", j.Projection),
			})
		}
	}
	return found
}
