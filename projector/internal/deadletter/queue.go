package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// Message is a dead letter.
type Message struct {
	// Sequence is the message's sequence number in the queue.
	Sequence int64
	// Reason is the dead-letter reason, which the broker or a projector has set.
	Reason string
	// ContentType and Body are the event.
	ContentType string
	Body        []byte

	// received is set if the message is locked.
	received *azservicebus.ReceivedMessage
}

// withoutBody returns what unlocks a received message.
func (m *Message) withoutBody() Message {
	lock := Message{Sequence: m.Sequence}
	if m.received != nil {
		lock.received = &azservicebus.ReceivedMessage{LockToken: m.received.LockToken}
	}
	return lock
}

// Queue is the dead-letter queue over one AMQP connection.
type Queue interface {
	// Peek returns up to limit messages with sequence numbers of at least from, in order;
	// none if there are no more.
	Peek(ctx context.Context, from int64, limit int) ([]Message, error)
	// Receive locks up to limit messages at the front of the queue. If there is none, it
	// waits until ctx ends and returns the error of ctx.
	Receive(ctx context.Context, limit int) ([]Message, error)
	// Complete removes a received message permanently.
	Complete(ctx context.Context, m *Message) error
	// Abandon unlocks a received message. Call it only after the last Receive.
	Abandon(ctx context.Context, m *Message) error
	Close(ctx context.Context) error
}

// Dial returns a function that makes connections to the dead-letter queue of a
// subscription. The function makes no request: the first peek does.
func Dial(s sbus.Subscription) func() (Queue, error) {
	return func() (Queue, error) {
		client, err := s.NewClient()
		if err != nil {
			return nil, err
		}
		q := &clientQueue{client: client, subscription: s}
		if err := q.open(); err != nil {
			return nil, err
		}
		return q, nil
	}
}

type clientQueue struct {
	client       *azservicebus.Client
	subscription sbus.Subscription
	receiver     *azservicebus.Receiver
	// received is set if the receiver's link may have credit.
	received bool
}

// open makes a receiver. The receiver opens its link at its first use.
func (q *clientQueue) open() (err error) {
	q.receiver, err = q.client.NewReceiverForSubscription(q.subscription.Topic, q.subscription.Name, &azservicebus.ReceiverOptions{
		SubQueue: azservicebus.SubQueueDeadLetter,
	})
	if err != nil {
		return fmt.Errorf("open the dead-letter queue of %s/%s: %w", q.subscription.Topic, q.subscription.Name, err)
	}
	q.received = false
	return nil
}

func (q *clientQueue) Peek(ctx context.Context, from int64, limit int) ([]Message, error) {
	peeked, err := q.receiver.PeekMessages(ctx, limit, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
	if err != nil {
		return nil, sbus.Readable(err)
	}
	messages, err := describe(peeked)
	for i := range messages {
		messages[i].received = nil
	}
	return messages, sbus.Readable(err)
}

func (q *clientQueue) Receive(ctx context.Context, limit int) ([]Message, error) {
	q.received = true
	received, err := q.receiver.ReceiveMessages(ctx, limit, nil)
	if err != nil {
		return nil, sbus.Readable(err)
	}
	if len(received) == 0 {
		// The SDK returns this for a link that has ended (azservicebus, receiver.go).
		return nil, errors.New("the link to the dead-letter queue has ended")
	}
	return describe(received)
}

func (q *clientQueue) Complete(ctx context.Context, m *Message) error {
	return q.receiver.CompleteMessage(ctx, m.received, nil)
}

// Abandon closes the receiver's link first. A Receive that timed out leaves credit on the
// link, so the broker would deliver the unlocked message to the same link and lock it
// again. Over the new link, the SDK unlocks a message by its lock token.
func (q *clientQueue) Abandon(ctx context.Context, m *Message) error {
	if q.received {
		if err := q.receiver.Close(ctx); err != nil {
			return fmt.Errorf("close the link to the dead-letter queue: %w", err)
		}
		if err := q.open(); err != nil {
			return err
		}
	}
	return q.receiver.AbandonMessage(ctx, &azservicebus.ReceivedMessage{LockToken: m.received.LockToken}, nil)
}

// describe converts messages of the SDK.
func describe(sdk []*azservicebus.ReceivedMessage) ([]Message, error) {
	messages := make([]Message, 0, len(sdk))
	for _, m := range sdk {
		if m.SequenceNumber == nil {
			return nil, errors.New("the broker shows a message without its sequence number")
		}
		message := Message{Sequence: *m.SequenceNumber, Body: m.Body, received: m}
		if m.DeadLetterReason != nil {
			message.Reason = *m.DeadLetterReason
		}
		if m.ContentType != nil {
			message.ContentType = *m.ContentType
		}
		messages = append(messages, message)
	}
	return messages, nil
}

// Close closes the connection, and the receiver with it.
func (q *clientQueue) Close(ctx context.Context) error { return q.client.Close(ctx) }
