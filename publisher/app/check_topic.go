package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/penstock-cdc/penstock/pkg/preflight"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// fullTopic is the share of the topic's size limit above which a check warns.
const fullTopic = 0.8

// topicView is what the administration API returns about a topic.
type topicView struct {
	properties admin.TopicProperties
	// size is the size of the topic's messages, in bytes.
	size int64
	// subscriptions are the names of all subscriptions, unordered of those without
	// sessions.
	subscriptions, unordered []string
	err                      error
}

// readTopic reads the topic and its subscriptions. It needs the right to manage them.
func readTopic(ctx context.Context, namespace *sbus.Namespace, topic string) (v topicView) {
	ctx, cancel := context.WithTimeout(ctx, topicTimeout)
	defer cancel()
	if v.properties, v.err = namespace.Topic(ctx, topic); v.err != nil {
		return v
	}
	if v.size, v.err = namespace.TopicSize(ctx, topic); v.err != nil {
		return v
	}
	found, err := namespace.Subscriptions(ctx, topic)
	for _, s := range found {
		v.subscriptions = append(v.subscriptions, s.SubscriptionName)
		if !sbus.Value(s.RequiresSession) {
			v.unordered = append(v.unordered, s.SubscriptionName)
		}
	}
	v.err = err
	return v
}

// reportTopic adds the findings about a topic to the report.
func reportTopic(r *preflight.Report, v topicView) {
	const what, subscriptions = "topic, properties", "topic, subscriptions"
	switch {
	case errors.Is(v.err, sbus.ErrUnreadable):
		r.Warn(what, "not checked: "+v.err.Error(), "grant Azure Service Bus Data Owner, or the Manage claim, for this check alone, or look at the topic with az")
		return
	case errors.Is(v.err, sbus.ErrAbsent):
		r.Fail(what, v.err.Error(), "create it, or correct AZURE_SERVICEBUS_TOPIC_NAME")
		return
	case v.err != nil:
		r.Unreached(what, v.err.Error(), "repeat the check")
		return
	}
	p := v.properties
	limit := int64(sbus.Value(p.MaxSizeInMegabytes)) << 20
	fill := float64(v.size) / float64(max(limit, 1))
	if status := sbus.Value(p.Status); status != "" && status != admin.EntityStatusActive {
		r.Fail(what, fmt.Sprintf("the topic's status is %s", status), "set it to Active")
	}
	if limit > 0 && fill > fullTopic {
		r.Warn(what, fmt.Sprintf("the topic has reached %.0f %% of its size limit", 100*fill), "find the subscription that is not drained: a full topic refuses every send")
	}
	if !sbus.Value(p.RequiresDuplicateDetection) {
		r.Warn(what, "the topic does not detect duplicates", "repeats after a failover reach every subscriber; read models ignore them. It can be set only when a topic is created")
	}
	var notes []string
	if sbus.Value(p.RequiresDuplicateDetection) {
		notes = append(notes, "detects duplicates within "+sbus.Value(p.DuplicateDetectionHistoryTimeWindow))
	}
	if sbus.Value(p.EnablePartitioning) {
		notes = append(notes, "is partitioned: batches have one session key")
	}
	if len(notes) > 0 {
		r.OK(what, strings.Join(notes, "; "))
	}
	slices.Sort(v.unordered)
	switch {
	case len(v.subscriptions) == 0:
		r.Warn(subscriptions, "the topic has no subscription", "create one that requires sessions: without a subscription, Service Bus drops every message")
	case len(v.unordered) == len(v.subscriptions):
		r.Warn(subscriptions, "no subscription requires sessions: "+strings.Join(v.unordered, ", "), "a projector needs one with sessions, which can be set only when it is created")
	case len(v.unordered) > 0:
		r.OK(subscriptions, fmt.Sprintf("%d; without sessions, and so without order: %s", len(v.subscriptions), strings.Join(v.unordered, ", ")))
	default:
		r.OK(subscriptions, fmt.Sprintf("%d, all with sessions", len(v.subscriptions)))
	}
}
