package term

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

const (
	// brokerSilence is how long the topic may fail before the verdict names it. The SDK
	// replaces a lost connection in less time.
	brokerSilence = 10 * time.Second
	// streamSilence is how far the change stream may be behind before the verdict names it. A
	// scan leaves the stream alone for a [scanStretch], and for one page more.
	streamSilence = 2 * time.Minute
	// delayedAfter is how long sending the events of a key must fail before the verdict names
	// it.
	delayedAfter = time.Minute
)

// watch adds the conditions of health that the terms know. host is that of the topic.
func (r *Runner) watch(h *health.Health, host string) {
	h.Watch("broker", health.Lasting(brokerSilence, func(context.Context) []health.Condition {
		since, err := r.publishing.Availability.Failing()
		if err == nil {
			return nil
		}
		return []health.Condition{{
			Name: "broker-unreachable", State: health.Degraded, Since: since,
			Text:   fmt.Sprintf("Service Bus at %s: %v", host, err),
			Remedy: "Nothing is lost: the events wait in the event store. " + cmp.Or(sbus.Remedy(err, "The topic"), "Check the namespace's status, its firewall and this pod's network") + ".",
		}}
	}))
	h.Watch("events-collection", func(context.Context) []health.Condition {
		since := r.absent.Load()
		if since == nil {
			return nil
		}
		events := r.options.Config.MongoDB.Events()
		missing := health.Condition{
			Name: "events-collection-missing", State: health.Degraded, Since: *since,
			Text:   fmt.Sprintf("collection %s of database %s does not exist", events.Collection, events.Database),
			Remedy: "Create it with its index, or correct PENSTOCK_EVENTS_DATABASE and PENSTOCK_EVENTS_COLLECTION.",
		}
		if !r.exists.Load() {
			// A wrong name is more likely than a store without events, so a rollout stops.
			missing.State = health.NotReady
		}
		return []health.Condition{missing}
	})
	h.Watch("keys-delayed", delayedKeys(r.publishing.Metrics))
	h.Watch("stream", func(context.Context) []health.Condition {
		lag := r.watching.Metrics.Lag()
		if lag < streamSilence {
			return nil
		}
		return []health.Condition{{
			Name: "stream-behind", State: health.Degraded, Since: time.Now().Add(-lag),
			Text:   fmt.Sprintf("the change stream has been read only up to %s", time.Now().Add(-lag).UTC().Format(time.RFC3339)),
			Remedy: "If the time advances, the publisher catches up by itself. Otherwise look for slow or refused requests of MongoDB in the log.",
		}}
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
