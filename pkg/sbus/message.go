package sbus

import (
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// ToSDK converts m to a message of the SDK. Both share the body and the strings.
func ToSDK(m *event.Message) *azservicebus.Message {
	return &azservicebus.Message{
		ApplicationProperties: m.Properties(),
		Body:                  m.Body,
		ContentType:           &m.ContentType,
		MessageID:             &m.MessageID,
		// Service Bus refuses a PartitionKey that differs from the SessionId.
		PartitionKey: &m.SessionKey,
		SessionID:    &m.SessionKey,
		// Subscription rules can filter by the subject (sys.Label).
		Subject: &m.EventType,
	}
}
