package sessions

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// Annotations of received messages.
// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-protocol-guide
const (
	annotationSequenceNumber = "x-opt-sequence-number"
	annotationEnqueuedTime   = "x-opt-enqueued-time"
	annotationLockedUntil    = "x-opt-locked-until"
	annotationPartitionKey   = "x-opt-partition-key"
)

// convert converts a message of go-amqp to one of the SDK. Both share the body, the strings
// and the application properties. Fields that no consumer of a session needs stay empty:
// RawAMQPMessage, and everything about scheduling, replies and dead letters. A field of an
// unexpected type stays empty too.
func convert(raw *amqp.Message) *azservicebus.ReceivedMessage {
	m := &azservicebus.ReceivedMessage{ApplicationProperties: raw.ApplicationProperties}
	if len(raw.Data) == 1 {
		m.Body = raw.Data[0]
	}
	if p := raw.Properties; p != nil {
		m.MessageID, _ = p.MessageID.(string)
		m.SessionID = p.GroupID
		m.ContentType = p.ContentType
		m.Subject = p.Subject
		m.To = p.To
		if id, ok := p.CorrelationID.(string); ok {
			m.CorrelationID = &id
		}
	}
	if h := raw.Header; h != nil {
		// The broker counts from zero, the SDK from one.
		m.DeliveryCount = h.DeliveryCount + 1
		m.TimeToLive = &h.TTL
	}
	if n, ok := raw.Annotations[annotationSequenceNumber].(int64); ok {
		m.SequenceNumber = &n
	}
	if key, ok := raw.Annotations[annotationPartitionKey].(string); ok {
		m.PartitionKey = &key
	}
	m.EnqueuedTime = timeIn(raw.Annotations, annotationEnqueuedTime)
	m.LockedUntil = timeIn(raw.Annotations, annotationLockedUntil)
	if len(raw.DeliveryTag) == len(m.LockToken) {
		m.LockToken = lockToken([16]byte(raw.DeliveryTag))
	}
	return m
}

func timeIn(annotations amqp.Annotations, name string) *time.Time {
	at, ok := annotations[name].(time.Time)
	if !ok {
		return nil
	}
	return &at
}

// lockToken makes a UUID from a delivery tag, whose first three fields have the byte order
// of .NET.
func lockToken(tag [16]byte) [16]byte {
	tag[0], tag[1], tag[2], tag[3] = tag[3], tag[2], tag[1], tag[0]
	tag[4], tag[5] = tag[5], tag[4]
	tag[6], tag[7] = tag[7], tag[6]
	return tag
}

// epochTicks is 1970-01-01 in .NET's ticks of 100 ns since the year 1.
const epochTicks = 621355968000000000

func fromTicks(ticks int64) time.Time {
	return time.Unix(0, (ticks-epochTicks)*100).UTC()
}
