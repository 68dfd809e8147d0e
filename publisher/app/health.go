package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/duration"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/publisher/internal/inventory"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

const (
	// brokerSilence is how long the topic may fail before the verdict names it. The SDK
	// replaces a lost connection in less time.
	brokerSilence = 10 * time.Second
	// streamSilence is how far the change stream may be behind before the verdict names it.
	streamSilence = time.Minute
	// shortRunway is how far the oplog must reach back before the checkpoint.
	shortRunway = time.Hour
	// delayedAfter is how long sending the events of a key must fail before the verdict names
	// it.
	delayedAfter = time.Minute
)

// newConditions makes the metric of the conditions of health.
func (p *Publisher) newConditions() *prometheus.GaugeVec {
	conditions := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "penstock_publisher_health_conditions",
		Help: "Conditions of this process that a person must know, by name and by what follows from them: degraded, or not ready. The names: broker-unreachable, stream-behind, oplog-short, keys-delayed, quarantined and paused; startup, mongodb, mongodb-access, mongodb-state, mongodb-quarantine, pause, lease, topic and loop-stuck make the process not ready. Absent while there are none; /readyz and \"publisher status\" give the reasons and the remedies.",
	}, []string{"condition", "state"})
	p.registry.MustRegister(conditions)
	return conditions
}

// watchWorker adds the conditions that the worker and the loops beside it know.
func watchWorker(h *health.Health, w *worker, host string) {
	h.Watch("paused", func(context.Context) []health.Condition { return w.pausing.Paused().Conditions("publisher") })
	h.Watch("broker", health.Lasting(brokerSilence, func(context.Context) []health.Condition {
		since, err := w.publishing.Availability.Failing()
		if err == nil {
			return nil
		}
		return []health.Condition{{
			Name: "broker-unreachable", State: health.Degraded, Since: since,
			Text:   fmt.Sprintf("Service Bus at %s: %v", host, err),
			Remedy: "Nothing is lost: the events wait in the event store. Check the namespace's status, its firewall and this pod's network.",
		}}
	}))
	h.Watch("keys-delayed", delayedKeys(w.publishing.Metrics))
	h.Watch("stream", func(context.Context) []health.Condition {
		lag := w.watching.Metrics.Lag()
		if lag < streamSilence || w.pausing.Paused() != nil {
			return nil
		}
		return []health.Condition{{
			Name: "stream-behind", State: health.Degraded, Since: time.Now().Add(-lag),
			Text:   fmt.Sprintf("the change stream has been read only up to %s", time.Now().Add(-lag).UTC().Format(time.RFC3339)),
			Remedy: "If the time advances, the publisher catches up by itself. Otherwise look for slow or refused requests of MongoDB in the log.",
		}}
	})
	h.Watch("inventory", func(context.Context) []health.Condition {
		n, ok := w.inventory.Quarantined()
		if !ok {
			n = 0
		}
		found := quarantineConditions(n)
		if runway, ok := w.inventory.Oplog(); ok && runway.Left < shortRunway && !runway.Complete {
			found = append(found, health.Condition{
				Name: "oplog-short", State: health.Degraded,
				Text:   fmt.Sprintf("the oplog reaches back only %s before the checkpoint", duration.Text(max(0, runway.Left))),
				Remedy: "If it loses the position, the next term scans the whole event store. Make the oplog larger (replSetResizeOplog), and look for what delays publishing.",
			})
		}
		return found
	})
}

// delayedKeys is the condition that some session keys cannot be published, while the publisher
// continues with the others.
func delayedKeys(metrics *publish.Metrics) func(context.Context) []health.Condition {
	return func(context.Context) []health.Condition {
		delayed := metrics.Delayed()
		if delayed.Keys == 0 || time.Since(delayed.Since) < delayedAfter {
			return nil
		}
		return []health.Condition{{
			Name: "keys-delayed", State: health.Degraded, Since: delayed.Since,
			Text: fmt.Sprintf("publishing fails for %s, for session key %q since %s: %v",
				cli.Count(int64(delayed.Keys), "session key"), delayed.Key, delayed.Since.UTC().Format(time.RFC3339), delayed.Err),
			Remedy: "The events of these keys wait in order, and the checkpoint does not pass them. Look for the reason in the error, and at the topic or the event store that it names.",
		}}
	}
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
	case records >= inventory.QuarantineLimit:
		count = "at least " + count
	}
	return []health.Condition{{
		Name: "quarantined", State: health.Degraded,
		Text:   fmt.Sprintf("%s could not be published and %s in the quarantine", count, verb),
		Remedy: "\"publisher quarantine list\" shows each with its error. Correct them in the event store, then \"publisher quarantine republish\".",
	}}
}

// conditions are those that the status command finds itself.
func (s *status) conditions(elects bool) []health.Condition {
	found := s.Paused.Conditions("publisher")
	if elects && s.Leader == "" && s.Unknown["leader"] == "" {
		found = append(found, health.Condition{
			Name: "no-leader", State: health.NotReady, Text: "no publisher leads, so nothing is published",
			Remedy: "Check that publishers run; their log and /readyz say why none leads.",
		})
	}
	if s.Quarantined != nil {
		found = append(found, quarantineConditions(*s.Quarantined)...)
	}
	for _, part := range []string{"leader", "checkpoint", "paused", "quarantined", "health"} {
		if reason := s.Unknown[part]; reason != "" {
			found = append(found, health.Condition{Name: "unknown", Subject: part, State: health.Degraded, Text: reason})
		}
	}
	return found
}
