package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

const (
	// brokerSilence is how long the broker may fail before the verdict names it. A lost
	// connection is replaced in less time.
	brokerSilence = 10 * time.Second
	// retrySilence is how long sessions may wait for a store before the verdict names them.
	retrySilence = 90 * time.Second
	// buildSilence is how long a build may wait before that is a condition. A rollout is
	// mostly faster.
	buildSilence = 5 * time.Minute
	// registrationSilence is how long renewing the registration may fail before the verdict
	// names it. An election of a new primary takes less.
	registrationSilence = 15 * time.Second
	// reconcileSilence is how long sweeps may fail to be scheduled before the verdict names it.
	reconcileSilence = 15 * time.Second
)

// newConditions makes the metric of the conditions of health.
func (p *Projector) newConditions() *prometheus.GaugeVec {
	return obs.GaugeVec(p.registry, "penstock_projector_health_conditions",
		"Conditions of this process that a person must know, by name and by what follows from them: degraded, or not ready. The names: broker-unreachable, behind, store-slow, parked, dead-letters, build-failed, build-waiting, retrying, unregistered, not-reconciled and wrong-read-models; startup, mongodb, mongodb-access, servicebus, loop-stuck and unreadable make the process not ready. Absent while there are none; /readyz and \"projector status\" give the reasons and the remedies.", "condition", "state")
}

// watchBroker adds the condition that the broker does not answer.
func (p *Projector) watchBroker(h *health.Health, acceptor *drain.Acceptor) {
	h.Watch("broker", health.Lasting(brokerSilence, func(context.Context) []health.Condition {
		err := acceptor.Failing()
		if err == nil {
			return nil
		}
		return []health.Condition{{
			Name: "broker-unreachable", State: health.Degraded,
			Text:   fmt.Sprintf("Service Bus at %s gives no session of subscription %s: %v", p.config.ServiceBus.Host(), p.config.ServiceBus.Subscription, err),
			Remedy: "Read models get no events; nothing is lost. " + cmp.Or(sbus.Remedy(err, "The subscription"), "Check the namespace's status, its firewall, this pod's network and its right to listen") + ".",
		}}
	}))
	h.Watch("retrying", health.Lasting(retrySilence, func(context.Context) []health.Condition {
		n := acceptor.Waiting()
		if n == 0 {
			return nil
		}
		return []health.Condition{{
			Name: "retrying", State: health.Degraded,
			Text:   fmt.Sprintf("%s settle nothing and try their events again, because a store does not answer", cli.Count(int64(n), "session")),
			Remedy: "The log has the errors. Look at MongoDB.",
		}}
	}))
}

// watchDelay adds the conditions that events wait long in the subscription, and that writes are slow.
func (p *Projector) watchDelay(h *health.Health, acceptor *drain.Acceptor, writer *readmodel.Writer) {
	longest := func(of func() health.Durations) func() (float64, bool) {
		return func() (float64, bool) { d := of(); return d.Longest.Seconds(), d.Count > 0 }
	}
	h.Figure(operate.FigureWaited, longest(acceptor.Waited))
	h.Figure(operate.FigureWrite, longest(writer.Took))
	h.Watch("behind", func(context.Context) []health.Condition {
		waited := acceptor.Waited()
		if waited.Above == 0 {
			return nil
		}
		return []health.Condition{{
			Name: "behind", State: health.Degraded,
			Text:   fmt.Sprintf("events have waited for up to %s in the subscription (PENSTOCK_BEHIND_AFTER is %s)", waited.Longest.Round(time.Second), p.config.Backlog.BehindAfter),
			Remedy: "Nothing is lost. Let more projectors run, or look at MongoDB if its writes are slow; after a stop, or while a history is published, wait.",
		}}
	})
	h.Watch("store-slow", health.Lasting(time.Minute, func(context.Context) []health.Condition {
		took := writer.Took()
		if 100*took.Above <= took.Count {
			return nil
		}
		return []health.Condition{{
			Name: "store-slow", State: health.Degraded,
			Text:   fmt.Sprintf("%d of %d writes of the last minute took longer than %s, the longest %s", took.Above, took.Count, readmodel.SlowWrite, took.Longest.Round(time.Millisecond)),
			Remedy: "Look at MongoDB: its load, its disks, the lag of its secondaries. More projectors do not help.",
		}}
	}))
}

// watchState adds the conditions of the state that all pods share, as this pod knows it.
func watchState(h *health.Health, past *upkeep, deadLetters *deadletter.Counter, scheduler *history.Scheduler) {
	h.Watch("registration", health.Lasting(registrationSilence, func(context.Context) []health.Condition { return past.registry.Conditions() }))
	h.Watch("parked", func(context.Context) []health.Condition {
		return operate.ParkedConditions(past.parkedKinds())
	})
	h.Watch("verifications", func(context.Context) []health.Condition {
		return operate.WrongConditions(past.jobs.Verifications(), past.follower.Projections())
	})
	h.Watch("builds", func(context.Context) []health.Condition {
		return catalog.BuildConditions(past.follower.Projections())
	})
	h.Watch("waiting builds", health.Lasting(buildSilence, func(context.Context) []health.Condition {
		return catalog.WaitingConditions(past.follower.Projections())
	}))
	if deadLetters != nil {
		h.Watch("dead-letters", func(context.Context) []health.Condition { return deadletter.Conditions(deadLetters.Fresh()) })
	}
	if scheduler != nil {
		h.Watch("sweeps", health.Lasting(reconcileSilence, func(context.Context) []health.Condition {
			err := scheduler.Err()
			if err == nil {
				return nil
			}
			return []health.Condition{{
				Name: "not-reconciled", State: health.Degraded, Text: fmt.Sprintf("read models are not compared with the event store: %v", err),
				Remedy: "It is retried. New events do not depend on it: they are applied while MongoDB answers.",
			}}
		}))
	}
}
