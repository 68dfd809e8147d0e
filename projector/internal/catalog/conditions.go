package catalog

import (
	"cmp"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/health"
)

// Unregistered is the name of the condition that a pod's registration is not renewed.
const Unregistered = "unregistered"

// Conditions says whether the registration of this pod is renewed.
func (r *Registry) Conditions() []health.Condition {
	err := r.Err()
	if err == nil {
		return nil
	}
	return []health.Condition{{
		Name: Unregistered, State: health.Degraded,
		Text:   fmt.Sprintf("the registration of this pod is not renewed (collection %s of the state database), and no event is settled after it has expired: %v", RegistryName, err),
		Remedy: "Events are settled again when the registration is back; nothing is lost. Check that MongoDB can be reached, and that the user has readWrite on the state database.",
	}}
}

// BuildConditions says which projections have a build that failed.
func BuildConditions(entries map[string]*Entry) []health.Condition {
	var found []health.Condition
	for name, e := range entries {
		if b := e.Building; b != nil && b.State == Failed {
			found = append(found, health.Condition{
				Name: "build-failed", Subject: name, State: health.Degraded,
				Text:   fmt.Sprintf("generation %d of projection %s will not become live: %s", b.Generation, name, cmp.Or(b.Reason, "no reason recorded")),
				Remedy: fmt.Sprintf("The live generation is untouched. \"projector projections show %s\" has the details; \"projector projections rebuild %s\" repeats the build.", name, name),
			})
		}
	}
	return found
}

// WaitingConditions says which builds wait for something, or keep the writes of their
// projection paused.
func WaitingConditions(entries map[string]*Entry) []health.Condition {
	var found []health.Condition
	for name, e := range entries {
		b := e.Building
		if b == nil || b.State == Failed || b.State != Promoting && b.Reason == "" {
			continue
		}
		what := "waits: "
		if b.State == Promoting {
			what = "is being promoted, and the writes of the projection are paused: "
		}
		found = append(found, health.Condition{
			Name: "build-waiting", Subject: name, State: health.Degraded,
			Text:   fmt.Sprintf("generation %d of projection %s %s%s", b.Generation, name, what, cmp.Or(b.Reason, "no reason recorded")),
			Remedy: fmt.Sprintf("\"projector projections show %s\" has the details.", name),
		})
	}
	return found
}
