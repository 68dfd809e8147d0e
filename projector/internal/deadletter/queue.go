package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Message is what counting needs of a dead letter.
type Message struct {
	Sequence int64
	// Bytes is the size of the body.
	Bytes int
}

// Queue is the dead-letter queue over one AMQP connection.
type Queue interface {
	// Peek gives up to that many messages in the order of their sequence numbers, from
	// this number on; none if there are no more.
	Peek(ctx context.Context, from int64, most int) ([]Message, error)
	Close(ctx context.Context) error
}

// Subscription makes connections to the dead-letter queue of one subscription.
type Subscription struct {
	Topic, Name string
	// NewClient makes the SDK's client of a connection. Its own retries should be off.
	NewClient func() (*azservicebus.Client, error)
}

// Dial makes a connection. It does not touch the network: the first peek does.
func (s Subscription) Dial() (Queue, error) {
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

type clientQueue struct {
	client   *azservicebus.Client
	receiver *azservicebus.Receiver
}

func (q *clientQueue) Peek(ctx context.Context, from int64, most int) ([]Message, error) {
	peeked, err := q.receiver.PeekMessages(ctx, most, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
	if err != nil {
		return nil, err
	}
	messages := make([]Message, 0, len(peeked))
	for _, message := range peeked {
		if message.SequenceNumber == nil {
			return nil, errors.New("the broker shows a message without its sequence number")
		}
		messages = append(messages, Message{Sequence: *message.SequenceNumber, Bytes: len(message.Body)})
	}
	return messages, nil
}

// Close closes the connection, and the receiver with it.
func (q *clientQueue) Close(ctx context.Context) error { return q.client.Close(ctx) }
