package publish

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// ServiceBus connects to a topic of Azure Service Bus. Each connection is a client of its
// own, because one client is one TCP connection. A client does not recover from a broken
// connection: the SDK (v1.11) recovers only in its retries, which are off, except for one
// attempt after the detach of a link.
func ServiceBus(namespace *sbus.Namespace, topic string) Connect {
	return func(ctx context.Context) (Sender, error) {
		changed := namespace.Changed()
		client, err := namespace.NewClient()
		if err != nil {
			return nil, &SendError{Fault: FaultFatal, Err: err}
		}
		sender, err := client.NewSender(topic, nil)
		if err != nil {
			return nil, &SendError{Fault: FaultFatal, Err: fmt.Errorf("make sender: %w", err)}
		}
		s := &serviceBus{client: client, sender: sender, changed: changed}
		// The first use attaches the links. It must complete before concurrent use: the SDK
		// would attach once for each of the first concurrent uses, and leak all but one of
		// the link sets with their token refreshers.
		if _, err := sender.NewMessageBatch(ctx, nil); err != nil {
			_ = s.Close(ctx)
			return nil, sendError(fmt.Errorf("attach to topic %s: %w", topic, err), 1)
		}
		return s, nil
	}
}

// serviceBus is a [Sender] over one client.
type serviceBus struct {
	client *azservicebus.Client
	sender *azservicebus.Sender
	// changed is closed when the namespace has another key than the client.
	changed <-chan struct{}
}

var _ Sender = (*serviceBus)(nil)

// Expired returns a channel that is closed when the client has an old key.
func (s *serviceBus) Expired() <-chan struct{} { return s.changed }

func (s *serviceBus) Send(ctx context.Context, messages []*event.Message) (int, error) {
	if len(messages) > 1 {
		// The batch knows the link's limit. A message that fits into no batch can still be
		// sent alone, because the premium tier allows larger single messages.
		batch, err := s.sender.NewMessageBatch(ctx, nil)
		if err != nil {
			return 0, sendError(err, len(messages))
		}
		var first, rest sbus.Annotated
		scratch := &first
		n := 0
		for n < min(len(messages), maxBatchEvents) {
			err := batch.AddAMQPAnnotatedMessage(scratch.Of(messages[n]), nil)
			if errors.Is(err, azservicebus.ErrMessageTooLarge) {
				break
			}
			if err != nil && n == 0 {
				return 0, &SendError{Fault: FaultRefused, First: true, Err: fmt.Errorf("marshal message %s: %w", messages[n].MessageID, err)}
			}
			if err != nil {
				break // it is the first of the next batch
			}
			scratch = &rest
			n++
		}
		if n > 1 {
			if err := s.sender.SendMessageBatch(ctx, batch, nil); err != nil {
				return 0, sendError(err, n)
			}
			return n, nil
		}
	}
	if err := s.sender.SendAMQPAnnotatedMessage(ctx, new(sbus.Annotated).Of(messages[0]), nil); err != nil {
		return 0, singleError(err, messages[0])
	}
	return 1, nil
}

// Close returns when ctx ends at the latest. If the peer does not read, the connection
// stays open until the SDK's own write timeout, 30 s.
func (s *serviceBus) Close(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- s.client.Close(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fitsAlways is the size of a body that fits into a message of every topic. The lowest
// limit is 256 KB, in the standard tier.
const fitsAlways = 128 << 10

// singleError is [sendError] for one message. After the broker has ended a link because of
// one message that was too large, the SDK reports the same for every later message.
func singleError(err error, message *event.Message) *SendError {
	e := sendError(err, 1)
	if e.Fault == FaultTooLarge && len(message.Body) <= fitsAlways {
		e.Broken = true
	}
	return e
}

// sendError converts the SDK's error for a send of that many messages.
func sendError(err error, messages int) *SendError {
	class := sbus.Classify(err)
	// A send that timed out may have left half a message on the link, and the service's own
	// timeout may have ended the link for good. The SDK reports neither.
	broken := sbus.Broken(err) || class == sbus.ClassTimeout || errors.Is(err, context.DeadlineExceeded)
	e := &SendError{Fault: FaultTransient, Broken: broken, Err: err}
	switch class {
	case sbus.ClassBusy:
		e.Fault = FaultBusy
	case sbus.ClassTooLarge:
		e.Fault = FaultTooLarge
		e.First = messages == 1
	case sbus.ClassRefused:
		e.Fault = refusal(err)
	case sbus.ClassConnectionLost, sbus.ClassStopped:
		e.Fault = FaultDisconnected
	case sbus.ClassFatal:
		e.Fault = FaultFatal
	}
	return e
}

// refusal recognizes the refusal of batches by a partitioned topic: "Batching brokered
// messages with distinct SessionId or PartitionKey is not supported for an entity with
// partitioning enabled" (amqpnetlite#120: a batch of one session key is accepted). With
// duplicate detection the text is "distinct SessionId, PartitionKey, or MessageId"
// (azure-sdk-for-python#21955: no batch is accepted).
func refusal(err error) Fault {
	switch text := err.Error(); {
	case !strings.Contains(text, "Batching"):
		return FaultRefused
	case strings.Contains(text, "MessageId"):
		return FaultBatch
	default:
		return FaultMixed
	}
}
