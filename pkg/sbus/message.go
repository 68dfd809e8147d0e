package sbus

import (
	"math"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// ToSDK makes the SDK's message of m. The two share m's body and strings.
func ToSDK(m *event.Message) *azservicebus.Message {
	return &azservicebus.Message{
		ApplicationProperties: m.Properties(),
		Body:                  m.Body,
		ContentType:           &m.ContentType,
		MessageID:             &m.MessageID,
		// Service Bus refuses a PartitionKey that differs from the SessionId.
		PartitionKey: &m.SessionKey,
		SessionID:    &m.SessionKey,
	}
}

// Received is a message as it came: what its properties say of the event, which a
// foreign sender may have left out, and how the broker keeps it.
type Received struct {
	// Message holds what the properties say; Keys are empty or zero where a
	// property is missing or of another type.
	event.Message
	// SDK is the message to settle.
	SDK *azservicebus.ReceivedMessage
	// SequenceNumber is the broker's number of the message in its topic; 0 where it
	// has none.
	SequenceNumber int64
	// EnqueuedAt is when the broker accepted the message; zero where it does not say.
	EnqueuedAt time.Time
	// DeliveryCount is 1 at the first delivery.
	DeliveryCount uint32
}

// FromSDK reads a received message. It never fails: whether the message is an
// event shows when its body is read.
func FromSDK(m *azservicebus.ReceivedMessage) Received {
	p := m.ApplicationProperties
	r := Received{
		Message: event.Message{
			Keys: event.Keys{
				AggregateID:   text(p, event.PropertyAggregateID),
				AggregateType: text(p, event.PropertyAggregateType),
				EventID:       integer(p, event.PropertyEventID),
				EventType:     text(p, event.PropertyEventType),
			},
			MessageID:   m.MessageID,
			Body:        m.Body,
			Epoch:       integer(p, event.PropertyEpoch),
			TraceParent: text(p, event.PropertyTraceParent),
			TraceState:  text(p, event.PropertyTraceState),
		},
		SDK:           m,
		DeliveryCount: m.DeliveryCount,
	}
	r.ClaimCheck, _ = p[event.PropertyClaimCheck].(bool)
	if m.SessionID != nil {
		r.SessionKey = *m.SessionID
	}
	if m.ContentType != nil {
		r.ContentType = *m.ContentType
	}
	if m.SequenceNumber != nil {
		r.SequenceNumber = *m.SequenceNumber
	}
	if m.EnqueuedTime != nil {
		r.EnqueuedAt = *m.EnqueuedTime
	}
	return r
}

func text(p map[string]any, name string) string {
	s, _ := p[name].(string)
	return s
}

// integer reads a property of any of AMQP's integer types: senders in other
// languages do not all send a long.
func integer(p map[string]any, name string) int64 {
	switch n := p[name].(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	case int16:
		return int64(n)
	case int8:
		return int64(n)
	case uint64:
		if n <= math.MaxInt64 {
			return int64(n)
		}
	case uint32:
		return int64(n)
	case uint16:
		return int64(n)
	case uint8:
		return int64(n)
	}
	return 0
}
