package harness

import (
	"context"
	"fmt"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/pkg/event"
)

// browsePage is how many messages one request asks for; the broker may return fewer.
const browsePage = 250

// observer sees what reached a topic. It browses a subscription of its own, which locks and
// removes nothing, and repeats requests that a broken connection lost. A subscription has
// the messages in the order in which the topic accepted them.
type observer struct {
	receiver *azservicebus.Receiver

	mu sync.Mutex
	// next is the sequence number up to which seen has counted.
	next int64
	seen int
}

func newObserver(client *azservicebus.Client, topic, subscription string) (*observer, error) {
	receiver, err := client.NewReceiverForSubscription(topic, subscription, nil)
	if err != nil {
		return nil, fmt.Errorf("observe topic %s: %w", topic, err)
	}
	return &observer{receiver: receiver}, nil
}

// count returns the number of messages. It reads only those that it has not counted yet.
func (o *observer) count(ctx context.Context) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next, err := o.browse(ctx, o.next, func(*azservicebus.ReceivedMessage) error {
		o.seen++
		return nil
	})
	o.next = next
	return o.seen, err
}

// accepted returns all messages, from the first one on.
func (o *observer) accepted(ctx context.Context) ([]verify.Accepted, error) {
	var all []verify.Accepted
	_, err := o.browse(ctx, 0, func(m *azservicebus.ReceivedMessage) error {
		aggregateID, eventID, err := parseMessageID(m.MessageID)
		if err != nil {
			return err
		}
		accepted := verify.Accepted{MessageID: m.MessageID, AggregateID: aggregateID, EventID: eventID}
		if m.SessionID != nil {
			accepted.SessionID = *m.SessionID
		}
		if m.EnqueuedTime != nil {
			accepted.At = *m.EnqueuedTime
		}
		accepted.Epoch, _ = m.ApplicationProperties[event.PropertyEpoch].(int64)
		all = append(all, accepted)
		return nil
	})
	return all, err
}

// browse calls each with the messages from a sequence number on. It returns the number at
// which to continue.
func (o *observer) browse(ctx context.Context, from int64, each func(*azservicebus.ReceivedMessage) error) (next int64, err error) {
	for {
		page, err := o.receiver.PeekMessages(ctx, browsePage, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
		if err != nil {
			return from, fmt.Errorf("browse the topic: %w", err)
		}
		if len(page) == 0 {
			return from, nil
		}
		for _, m := range page {
			if m.SequenceNumber == nil {
				return from, fmt.Errorf("browse the topic: message %s has no sequence number", m.MessageID)
			}
			if err := each(m); err != nil {
				return from, err
			}
			from = *m.SequenceNumber + 1
		}
	}
}
