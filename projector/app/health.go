package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/reconcile"
)

const (
	// brokerSilence is how long the broker may fail before the verdict names it. A lost
	// connection is replaced in less time.
	brokerSilence = 10 * time.Second
	// retrySilence is how long aggregates may be retried before the verdict names them.
	retrySilence = 90 * time.Second
	// reconcileSilence is how long the reconciler may fail before the verdict names it.
	reconcileSilence = 15 * time.Second
)

// newConditions makes the metric of the conditions of health.
func (p *Projector) newConditions() *prometheus.GaugeVec {
	conditions := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "penstock_projector_health_conditions",
		Help: "Conditions of this process that a person must know, by name and by what follows from them: degraded, or not ready. The names: broker-unreachable, parked, dead-letters, build-failed, build-waiting, retrying, not-reconciled and paused; startup, mongodb, mongodb-access, pause, servicebus and loop-stuck make the process not ready, and so does breaker until it has read an event. Absent while there are none; /readyz and \"projector status\" give the reasons and the remedies.",
	}, []string{"condition", "state"})
	p.registry.MustRegister(conditions)
	return conditions
}

// watchBroker adds the condition that the broker does not answer.
func (p *Projector) watchBroker(h *health.Health, acceptor *drain.Acceptor) {
	h.Watch("broker", health.Lasting(brokerSilence, func(context.Context) []health.Condition {
		since, err := acceptor.Failing()
		if err == nil {
			return nil
		}
		return []health.Condition{{
			Name: "broker-unreachable", State: health.Degraded, Since: since,
			Text:   fmt.Sprintf("Service Bus at %s gives no session of subscription %s: %v", p.config.ServiceBus.Host(), p.config.ServiceBus.Subscription, err),
			Remedy: "Read models get no events; nothing is lost. Check the namespace's status, its firewall, this pod's network and its right to listen.",
		}}
	}))
	h.Watch("retrying", health.Lasting(retrySilence, func(context.Context) []health.Condition {
		n := acceptor.Retrying()
		if n == 0 {
			return nil
		}
		return []health.Condition{{
			Name: "retrying", State: health.Degraded,
			Text:   fmt.Sprintf("events of %s cannot be written or lack a predecessor, and are retried", cli.Count(int64(n), "aggregate")),
			Remedy: "The log has the errors. If all pods have this condition, look at MongoDB.",
		}}
	}))
}

// watchState adds the conditions of the state that all pods share, as this pod knows it.
func watchState(h *health.Health, past *history, deadLetters *deadletter.Counter, reconciler *reconcile.Reconciler) {
	h.Watch("paused", func(context.Context) []health.Condition { return past.pausing.Paused().Conditions("projector") })
	h.Watch("parked", func(context.Context) []health.Condition {
		return parkedConditions(parkedIn(past.parked.Counts(), slices.Collect(maps.Keys(past.follower.Projections()))))
	})
	h.Watch("builds", func(context.Context) []health.Condition { return buildConditions(past.follower.Projections()) })
	h.Watch("waiting builds", health.Lasting(buildSilence, func(context.Context) []health.Condition { return waitingConditions(past.follower.Projections()) }))
	if deadLetters != nil {
		h.Watch("dead-letters", func(context.Context) []health.Condition { return deadLetterConditions(deadLetters.Messages()) })
	}
	if reconciler != nil {
		h.Watch("reconciler", health.Lasting(reconcileSilence, func(context.Context) []health.Condition {
			err := reconciler.Err()
			if err == nil {
				return nil
			}
			return []health.Condition{{
				Name: "not-reconciled", State: health.Degraded, Text: fmt.Sprintf("read models are not compared with the event store, or dead letters not healed: %v", err),
				Remedy: "It is retried. Events that flow are still applied.",
			}}
		}))
	}
}

// parkedConditions says which aggregates of the projections are parked.
func parkedConditions(parked []parkedStatus) []health.Condition {
	sums := map[[2]string]int64{}
	for _, p := range parked {
		if !p.Discarded && p.Aggregates > 0 {
			sums[[2]string{p.Projection, p.Reason}] += p.Aggregates
		}
	}
	found := make([]health.Condition, 0, len(sums))
	for _, key := range slices.SortedFunc(maps.Keys(sums), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		verb := "are"
		if sums[key] == 1 {
			verb = "is"
		}
		found = append(found, health.Condition{
			Name: "parked", Subject: key[0] + " " + key[1], State: health.Degraded,
			Text:   fmt.Sprintf("%s %s parked in projection %s (%s), so their read models are not up to date", cli.Count(sums[key], "aggregate"), verb, key[0], key[1]),
			Remedy: parkedRemedy(key[0], key[1]),
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

// deadLetterConditions says that the subscription has dead letters.
func deadLetterConditions(messages map[string]int) []health.Condition {
	var total int64
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(messages)) {
		if n := messages[reason]; n > 0 {
			total += int64(n)
			reasons = append(reasons, fmt.Sprintf("%s: %d", reason, n))
		}
	}
	if total == 0 {
		return nil
	}
	return []health.Condition{{
		Name: "dead-letters", State: health.Degraded,
		Text:   fmt.Sprintf("the dead-letter queue has %s (%s)", cli.Count(total, "message"), strings.Join(reasons, ", ")),
		Remedy: "\"projector deadletters list\" shows what becomes of each.",
	}}
}

// buildConditions says which projections have a build that failed.
func buildConditions(entries map[string]*generation.Entry) []health.Condition {
	var found []health.Condition
	for name, e := range entries {
		if b := e.Building; b != nil && b.State == generation.Failed {
			found = append(found, health.Condition{
				Name: "build-failed", Subject: name, State: health.Degraded,
				Text:   fmt.Sprintf("generation %d of projection %s will not become live: %s", b.Generation, name, cmp.Or(b.Reason, "no reason recorded")),
				Remedy: fmt.Sprintf("The live generation is untouched. \"projector projections show %s\" has the details; \"projector projections retry %s\" repeats the build.", name, name),
			})
		}
	}
	slices.SortFunc(found, func(a, b health.Condition) int { return cmp.Compare(a.Subject, b.Subject) })
	return found
}

// buildSilence is how long a build may wait before that is a condition. A rollout is mostly
// faster.
const buildSilence = 5 * time.Minute

// waitingConditions says which builds wait for something, or keep the writes of their
// projection paused. A build that waits only for another one is not named: that one is.
func waitingConditions(entries map[string]*generation.Entry) []health.Condition {
	var found []health.Condition
	for name, e := range entries {
		b := e.Building
		if b == nil || b.State == generation.Failed || b.Awaits != "" || b.State != generation.Promoting && b.Reason == "" {
			continue
		}
		what := "waits: "
		if b.State == generation.Promoting {
			what = "is being promoted, and the writes of the projection are paused: "
		}
		found = append(found, health.Condition{
			Name: "build-waiting", Subject: name, State: health.Degraded,
			Text:   fmt.Sprintf("generation %d of projection %s %s%s", b.Generation, name, what, cmp.Or(b.Reason, "no reason recorded")),
			Remedy: fmt.Sprintf("\"projector projections show %s\" has the details.", name),
		})
	}
	slices.SortFunc(found, func(a, b health.Condition) int { return cmp.Compare(a.Subject, b.Subject) })
	return found
}
