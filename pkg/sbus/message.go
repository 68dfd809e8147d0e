package sbus

import (
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
		// The rules of other subscriptions select by the subject, as sys.Label.
		Subject: &m.EventType,
	}
}
