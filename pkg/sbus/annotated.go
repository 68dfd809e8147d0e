package sbus

import (
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// partitionKeyAnnotation holds the partition key of a message.
// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-protocol-guide#message-annotations
const partitionKeyAnnotation = "x-opt-partition-key"

// Annotated converts messages to those of the SDK.
// [azservicebus.MessageBatch.AddAMQPAnnotatedMessage] encodes the message before it returns, so
// one Annotated can make all messages of a batch except the first in the same memory. An
// azservicebus.Message for each of them, with its maps and boxed values, would be most of what
// a batch allocates. The zero value is ready for use.
//
// A batch keeps the application properties of its first message for its envelope, so the
// first message needs an Annotated of its own.
type Annotated struct {
	message     azservicebus.AMQPAnnotatedMessage
	properties  azservicebus.AMQPAnnotatedMessageProperties
	application map[string]any
	annotations map[any]any
	data        [1][]byte
}

// Of converts m. The result shares m's body and strings, and is valid until the next call.
func (a *Annotated) Of(m *event.Message) *azservicebus.AMQPAnnotatedMessage {
	if a.application == nil {
		a.application, a.annotations = make(map[string]any, 8), make(map[any]any, 1)
	}
	clear(a.application)
	m.PutProperties(a.application)
	// Service Bus refuses a PartitionKey that differs from the SessionId.
	a.annotations[partitionKeyAnnotation] = &m.SessionKey
	a.data[0] = m.Body
	// Subscription rules can filter by the subject (sys.Label).
	a.properties = azservicebus.AMQPAnnotatedMessageProperties{
		ContentType: &m.ContentType, GroupID: &m.SessionKey, MessageID: &m.MessageID, Subject: &m.EventType,
	}
	a.message = azservicebus.AMQPAnnotatedMessage{
		ApplicationProperties: a.application,
		Body:                  azservicebus.AMQPAnnotatedMessageBody{Data: a.data[:]},
		MessageAnnotations:    a.annotations,
		Properties:            &a.properties,
	}
	return &a.message
}
