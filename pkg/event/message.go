package event

import "time"

// Message is an event on the topic, independent of any SDK. SessionKey is both the
// SessionId and the PartitionKey.
type Message struct {
	Keys
	MessageID   string
	SessionKey  string
	ContentType string
	// Body is the event document in its encoding. In [EncodingBSON] it aliases the
	// source document.
	Body []byte
	// Epoch is that of the publisher's term that sent the message.
	Epoch int64
	// TraceParent and TraceState are the W3C trace context that the message carries: that
	// of the event's metadata, or of the publisher's span if the publisher traces. They
	// are empty if there is neither.
	TraceParent, TraceState string
	// Source makes the message a CloudEvent: it is the event's attribute source. Without
	// it the message has no attributes of CloudEvents.
	Source string
	// Timestamp is when the event happened; zero if the event has no time.
	Timestamp time.Time
	// ClaimCheck says that Body lacks the payload, the metadata and every other large
	// value. The whole event was too large for the topic and is in the event store.
	ClaimCheck bool
}

// The names of the application properties: subscription rules filter on them, so
// they are part of the contract.
const (
	PropertyAggregateID   = "aggregateId"
	propertyAggregateType = "aggregateType"
	propertyEventID       = "eventId"
	propertyEventType     = "eventType"
	PropertyEpoch         = "epoch"
	propertyTraceParent   = "traceparent"
	propertyTraceState    = "tracestate"
	// propertyDiagnosticID is equal to traceparent. The SDKs for Azure read it.
	propertyDiagnosticID = "Diagnostic-Id"
	PropertyClaimCheck   = "claimCheck"
)

// PutProperties puts the application properties into p: the names that subscription rules
// filter on. eventId and epoch are int64, claimCheck is a bool and present only if it is true,
// cloudEvents:time is a time. All others are strings and present only if they are not empty.
// The values are pointers to m's fields, which AMQP encodes like the values. Unlike a value in
// an interface, a pointer costs no allocation.
func (m *Message) PutProperties(p map[string]any) {
	p[PropertyAggregateID] = &m.AggregateID
	p[propertyEventID] = &m.EventID
	p[propertyEventType] = &m.EventType
	p[PropertyEpoch] = &m.Epoch
	if m.AggregateType != "" {
		p[propertyAggregateType] = &m.AggregateType
	}
	if m.TraceParent != "" {
		p[propertyTraceParent] = &m.TraceParent
		p[propertyDiagnosticID] = &m.TraceParent
		if m.TraceState != "" {
			p[propertyTraceState] = &m.TraceState
		}
	}
	if m.Source != "" {
		m.putCloudEvent(p)
	}
	if m.ClaimCheck {
		p[PropertyClaimCheck] = true
	}
}
