package event

// The attributes of CloudEvents in the binary content mode of AMQP. The attribute
// datacontenttype is the message's content type.
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/amqp-protocol-binding.md
const (
	propertyCloudEventsVersion = "cloudEvents:specversion"
	propertyCloudEventsID      = "cloudEvents:id"
	propertyCloudEventsSource  = "cloudEvents:source"
	propertyCloudEventsType    = "cloudEvents:type"
	propertyCloudEventsSubject = "cloudEvents:subject"
	propertyCloudEventsTime    = "cloudEvents:time"

	cloudEventsVersion = "1.0"
)

// putCloudEvent puts the attributes into p: the message id is the id, which is unique in
// its source, and the aggregate is the subject.
func (m *Message) putCloudEvent(p map[string]any) {
	p[propertyCloudEventsVersion] = cloudEventsVersion
	p[propertyCloudEventsID] = &m.MessageID
	p[propertyCloudEventsSource] = &m.Source
	p[propertyCloudEventsType] = &m.EventType
	p[propertyCloudEventsSubject] = &m.AggregateID
	if !m.Timestamp.IsZero() {
		p[propertyCloudEventsTime] = &m.Timestamp
	}
}
