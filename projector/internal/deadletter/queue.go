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
	// Sequence is its sequence number in the queue.
	Sequence int64
	// Reason is why it is there: the broker's word, or the reason that a projector gave.
	Reason string
	// ContentType and Body are the event.
	ContentType string
	Body        []byte

	// received is set if the message is locked.
	received *azservicebus.ReceivedMessage
}

// Queue is the dead-letter queue over one AMQP connection.
type Queue interface {
	// Peek gives up to that many messages in the order of their sequence numbers, from
	// this number on; none if there are no more.
	Peek(ctx context.Context, from int64, most int) ([]Message, error)
	// Receive locks up to that many messages at the front of the queue. It waits until
	// ctx ends if there is none; the error is ctx's then.
	Receive(ctx context.Context, most int) ([]Message, error)
	// Complete removes a received message for good.
	Complete(ctx context.Context, m *Message) error
	// Abandon unlocks a received message.
	Abandon(ctx context.Context, m *Message) error
	Close(ctx context.Context) error
}

// Dial makes connections to the dead-letter queue of a subscription. It does not touch the
// network: the first peek does.
func Dial(s sbus.Subscription) func() (Queue, error) {
	return func() (Queue, error) {
		client, err := s.NewClient()
		if err != nil {
			return nil, err
		}
		receiver, err := client.NewReceiverForSubscription(s.Topic, s.Name, &azservicebus.ReceiverOptions{
			SubQueue: azservicebus.SubQueueDeadLetter,
		})
		if err != nil {
			return nil, fmt.Errorf("open the dead-letter queue of %s/%s: %w", s.Topic, s.Name, err)
		}
		return &clientQueue{client: client, receiver: receiver}, nil
	}
}

type clientQueue struct {
	client   *azservicebus.Client
	receiver *azservicebus.Receiver
}

func (q *clientQueue) Peek(ctx context.Context, from int64, most int) ([]Message, error) {
	peeked, err := q.receiver.PeekMessages(ctx, most, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
	if err != nil {
		return nil, err
	}
	messages, err := describe(peeked)
	for i := range messages {
		messages[i].received = nil
	}
	return messages, err
}

func (q *clientQueue) Receive(ctx context.Context, most int) ([]Message, error) {
	received, err := q.receiver.ReceiveMessages(ctx, most, nil)
	if err != nil {
		return nil, err
	}
	if len(received) == 0 {
		// The SDK says so of a link that has ended (azservicebus, receiver.go).
		return nil, errors.New("the link to the dead-letter queue has ended")
	}
	return describe(received)
}

func (q *clientQueue) Complete(ctx context.Context, m *Message) error {
	return q.receiver.CompleteMessage(ctx, m.received, nil)
}

func (q *clientQueue) Abandon(ctx context.Context, m *Message) error {
	return q.receiver.AbandonMessage(ctx, m.received, nil)
}

// describe reads messages of the SDK.
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
