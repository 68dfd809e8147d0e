package sessions

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// annotationEnqueuedTime is an annotation of received messages.
// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-protocol-guide
const annotationEnqueuedTime = "x-opt-enqueued-time"

// convert converts a message of go-amqp to one of the SDK, with the fields that projectors read.
// Both share the body, the strings and the application properties. A field of an unexpected type
// stays empty.
func convert(raw *amqp.Message) *azservicebus.ReceivedMessage {
	m := &azservicebus.ReceivedMessage{ApplicationProperties: raw.ApplicationProperties}
	if len(raw.Data) == 1 {
		m.Body = raw.Data[0]
	}
	if p := raw.Properties; p != nil {
		m.MessageID, _ = p.MessageID.(string)
		m.SessionID = p.GroupID
		m.ContentType = p.ContentType
	}
	if h := raw.Header; h != nil {
		// The broker counts from zero, the SDK from one.
		m.DeliveryCount = h.DeliveryCount + 1
	}
	if at, ok := raw.Annotations[annotationEnqueuedTime].(time.Time); ok {
		m.EnqueuedTime = &at
	}
	return m
}

// epochTicks is 1970-01-01 in .NET's ticks of 100 ns since the year 1.
const epochTicks = 621355968000000000

func fromTicks(ticks int64) time.Time {
	return time.Unix(0, (ticks-epochTicks)*100).UTC()
}
