package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// shortRunway is how far the oplog must reach back before the checkpoint.
const shortRunway = time.Hour

// newConditions makes the metric of the conditions of health.
func (p *Publisher) newConditions() *prometheus.GaugeVec {
	return obs.GaugeVec(p.registry, "penstock_publisher_health_conditions",
		"Conditions of this process that a person must know, by name and by what follows from them: degraded, or not ready. The names: broker-unreachable, events-collection-missing, stream-behind, oplog-short, keys-delayed and quarantined; startup, mongodb, mongodb-access, mongodb-state, mongodb-quarantine, mongodb-checkpoint, lease, topic and loop-stuck make the process not ready. Absent while there are none; /readyz and \"publisher status\" give the reasons and the remedies.", "condition", "state")
}

// watchInventory adds the conditions that the inventory knows.
func watchInventory(h *health.Health, i *inventory) {
	h.Watch("inventory", func(context.Context) []health.Condition {
		var found []health.Condition
		if n, _, fresh := i.quarantined.Get(); fresh {
			found = quarantineConditions(n)
		}
		if r, _, fresh := i.oplog.Get(); fresh && r.left < shortRunway && !r.complete {
			found = append(found, health.Condition{
				Name: "oplog-short", State: health.Degraded,
				Text:   fmt.Sprintf("the oplog reaches back only %s before the checkpoint", poll.Duration(max(0, r.left))),
				Remedy: "If it loses the position, the next term scans the whole event store. Make the oplog larger (replSetResizeOplog), and look for what delays publishing.",
			})
		}
		return found
	})
}

// quarantineConditions is the condition that the quarantine has records.
func quarantineConditions(records int64) []health.Condition {
	if records == 0 {
		return nil
	}
	count, verb := cli.Count(records, "event"), "are"
	switch {
	case records == 1:
		verb = "is"
	case records >= quarantineLimit:
		count = "at least " + count
	}
	return []health.Condition{{
		Name: "quarantined", State: health.Degraded,
		Text:   fmt.Sprintf("%s could not be published and %s in the quarantine", count, verb),
		Remedy: "\"publisher quarantine list\" shows each with its error. Correct them in the event store, then \"publisher republish --quarantine\".",
	}}
}

// conditions are those that the status command finds itself.
func (s *status) conditions() []health.Condition {
	var found []health.Condition
	if s.Leader == "" && s.Unknown["leader"] == "" {
		found = append(found, health.Condition{
			Name: "no-leader", State: health.NotReady, Text: "no publisher leads, so nothing is published",
			Remedy: "Check that publishers run; their log and /readyz say why none leads.",
		})
	}
	if s.Quarantined != nil {
		found = append(found, quarantineConditions(*s.Quarantined)...)
	}
	for _, part := range []string{"leader", "checkpoint", "quarantined", "health"} {
		if reason := s.Unknown[part]; reason != "" {
			found = append(found, health.Condition{Name: "unknown", Subject: part, State: health.Degraded, Text: reason})
		}
	}
	return found
}
