package event

// The attributes of CloudEvents in the binary content mode of AMQP. The attribute
// datacontenttype is the message's content type.
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/amqp-protocol-binding.md
const (
	PropertyCloudEventsVersion = "cloudEvents:specversion"
	PropertyCloudEventsID      = "cloudEvents:id"
	PropertyCloudEventsSource  = "cloudEvents:source"
	PropertyCloudEventsType    = "cloudEvents:type"
	PropertyCloudEventsSubject = "cloudEvents:subject"
	PropertyCloudEventsTime    = "cloudEvents:time"

	cloudEventsVersion = "1.0"
)

// putCloudEvent puts the attributes into p: the message id is the id, which is unique in
// its source, and the aggregate is the subject.
func (m *Message) putCloudEvent(p map[string]any) {
	p[PropertyCloudEventsVersion] = cloudEventsVersion
	p[PropertyCloudEventsID] = &m.MessageID
	p[PropertyCloudEventsSource] = &m.Source
	p[PropertyCloudEventsType] = &m.EventType
	p[PropertyCloudEventsSubject] = &m.AggregateID
	if !m.Timestamp.IsZero() {
		p[PropertyCloudEventsTime] = &m.Timestamp
	}
}
