package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// subscriptionCounts are the numbers of messages in one subscription of the topic.
type subscriptionCounts struct {
	Name string `json:"name"`
	// Active counts the messages that wait for receivers, DeadLetters those in the
	// dead-letter queue, and TransferDeadLetters those that the subscription could not
	// forward.
	Active              int32 `json:"active"`
	DeadLetters         int32 `json:"deadLetters"`
	TransferDeadLetters int32 `json:"transferDeadLetters"`
}

// String returns the counts as one line.
func (c subscriptionCounts) String() string {
	return fmt.Sprintf("%d active, %s, %s", c.Active, cli.Count(int64(c.DeadLetters), "dead letter"), cli.Count(int64(c.TransferDeadLetters), "transfer dead letter"))
}

// errNoCounts says which rights reading the counts needs.
var errNoCounts = errors.New("the credentials may not read the counts: that needs the role Azure Service Bus Data Owner, or the claim Manage; \"projector status\" counts the dead letters of its subscription with the right to listen")

// countSubscriptions reads the counts of the topic's subscriptions, sorted by name.
func countSubscriptions(ctx context.Context, namespace *sbus.Namespace, topic string) ([]subscriptionCounts, error) {
	ctx, cancel := context.WithTimeout(ctx, topicTimeout)
	defer cancel()
	found, err := namespace.SubscriptionCounts(ctx, topic)
	if errors.Is(err, sbus.ErrUnreadable) {
		return nil, errNoCounts
	}
	if err != nil {
		return nil, fmt.Errorf("count the messages of the subscriptions of topic %s: %w", topic, err)
	}
	counts := []subscriptionCounts{}
	for _, s := range found {
		counts = append(counts, subscriptionCounts{s.SubscriptionName, s.ActiveMessageCount, s.DeadLetterMessageCount, s.TransferDeadLetterMessageCount})
	}
	slices.SortFunc(counts, func(a, b subscriptionCounts) int { return cmp.Compare(a.Name, b.Name) })
	return counts, nil
}
