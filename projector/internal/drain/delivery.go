package drain

import (
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Delivery is one event received in a session.
type Delivery struct {
	// Event aliases the message's body. For a claim check it has the keys and no payload.
	Event event.Event
	// MessageID and SessionID are those of the message.
	MessageID, SessionID string
	// ClaimCheck says that the whole event must be read from the event store.
	ClaimCheck bool

	message *azservicebus.ReceivedMessage
	// invalid is the reason why the message is not an event; nothing else is set then.
	invalid error
	// duplicates are further deliveries of the same event. They are settled like the first.
	duplicates []*Delivery
	size       int
	// done says that a call has finished it.
	done bool
}

// Properties are the application properties of the message.
func (d *Delivery) Properties() map[string]any { return d.message.ApplicationProperties }

// Deliveries counts how often the broker has delivered the message, from 1 on.
func (d *Delivery) Deliveries() uint32 { return d.message.DeliveryCount }

// decode reads the event in a message.
func decode(reader *event.Reader, sessionID string, m *azservicebus.ReceivedMessage) *Delivery {
	d := &Delivery{MessageID: m.MessageID, SessionID: sessionID, message: m, size: len(m.Body)}
	var contentType string
	if m.ContentType != nil {
		contentType = *m.ContentType
	}
	doc, err := event.DecodeBody(contentType, m.Body)
	if err == nil {
		d.Event, err = reader.Read(doc)
	}
	if sent, _ := m.ApplicationProperties[event.PropertyAggregateID].(string); err == nil && sent != "" && d.Event.OlderUUID() && sent != d.Event.AggregateID {
		err = &event.ContractError{Reason: event.ReasonMalformed, Detail: fmt.Sprintf("the publisher reads the aggregate id, an older UUID, as %s, and the projector as %s: give the connection strings of the event store the same uuidRepresentation in both", sent, d.Event.AggregateID)}
	}
	d.invalid = err
	d.ClaimCheck, _ = m.ApplicationProperties[event.PropertyClaimCheck].(bool)
	return d
}
