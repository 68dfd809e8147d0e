package event

import (
	"errors"
	"fmt"
	"strings"
)

// Fields are the names of the contract's fields in a source document. All of them are
// top-level fields. The zero value is invalid; start from [DefaultFields]. Configuration
// embeds Fields: the tags are kong's.
type Fields struct {
	AggregateID   string `name:"field-aggregate-id" env:"PENSTOCK_FIELD_AGGREGATE_ID" default:"aggregateId" placeholder:"NAME" help:"Field of the aggregate's id: string, ObjectId, UUID or integer."`
	AggregateType string `name:"field-aggregate-type" env:"PENSTOCK_FIELD_AGGREGATE_TYPE" default:"aggregateType" placeholder:"NAME" help:"Field of the aggregate's type; events may lack it."`
	EventID       string `name:"field-event-id" env:"PENSTOCK_FIELD_EVENT_ID" default:"eventId" placeholder:"NAME" help:"Field of the event's number within its aggregate."`
	EventType     string `name:"field-event-type" env:"PENSTOCK_FIELD_EVENT_TYPE" default:"eventType" placeholder:"NAME" help:"Field of the event's type."`
	Timestamp     string `name:"field-timestamp" env:"PENSTOCK_FIELD_TIMESTAMP" default:"timestamp" placeholder:"NAME" help:"Field of the event's time: a date, an RFC 3339 string, or .NET's DateTimeOffset; an event in another form has no time."`
	Payload       string `name:"field-payload" env:"PENSTOCK_FIELD_PAYLOAD" default:"payload" placeholder:"NAME" help:"Field of the event's data."`
	Metadata      string `name:"field-metadata" env:"PENSTOCK_FIELD_METADATA" default:"metadata" placeholder:"NAME" help:"Field of the event's metadata; traceparent and tracestate are read from it."`

	// FirstEventID is the id of the first event of each aggregate.
	FirstEventID int64 `name:"first-event-id" env:"PENSTOCK_FIRST_EVENT_ID" default:"1" help:"Id of the first event of each aggregate: 0 or 1, the same for all aggregates, and the same for the publisher and the projector."`

	// UUIDs is the order of bytes of aggregate ids that are older UUIDs. The connection string
	// of the event store has it.
	UUIDs UUIDRepresentation `kong:"-"`
}

// DefaultFields are the names of the design: aggregateId, aggregateType, eventId,
// eventType, timestamp, payload and metadata. Event ids begin at 1.
func DefaultFields() Fields {
	return Fields{
		AggregateID:   "aggregateId",
		AggregateType: "aggregateType",
		EventID:       "eventId",
		EventType:     "eventType",
		Timestamp:     "timestamp",
		Payload:       "payload",
		Metadata:      "metadata",
		FirstEventID:  1,
	}
}

// Check reports every name that is empty, dotted, starts with a dollar sign, contains a
// NUL or is used twice, a FirstEventID that is neither 0 nor 1, and an unknown
// UUIDRepresentation.
func (f Fields) Check() error {
	var problems []error
	seen := make(map[string]string, fieldCount)
	for _, n := range f.variables() {
		switch other, twice := seen[n.name]; {
		case n.name == "":
			problems = append(problems, fmt.Errorf("%s is empty: name a top-level field of the event documents", n.variable))
			continue
		case strings.Contains(n.name, "."):
			problems = append(problems, fmt.Errorf("%s is %q, a path: name a top-level field, without dots", n.variable, n.name))
		case strings.HasPrefix(n.name, "$") || strings.ContainsRune(n.name, 0):
			problems = append(problems, fmt.Errorf("%s is %q, not a valid field name: leave out the leading $ and NUL", n.variable, n.name))
		case twice:
			problems = append(problems, fmt.Errorf("%s is %q, which is also %s: give each its own field", n.variable, n.name, other))
		}
		seen[n.name] = n.variable
	}
	if f.FirstEventID != 0 && f.FirstEventID != 1 {
		problems = append(problems, fmt.Errorf("PENSTOCK_FIRST_EVENT_ID is %d: set 0 or 1", f.FirstEventID))
	}
	return errors.Join(append(problems, f.UUIDs.check())...)
}

// FromZero reports whether event ids begin at 0.
func (f Fields) FromZero() bool { return f.FirstEventID == 0 }

// Variable is the environment variable that configures the field with that name, or empty
// if no variable does.
func (f Fields) Variable(name string) string {
	for _, v := range f.variables() {
		if v.name == name {
			return v.variable
		}
	}
	return ""
}

// variable is the name of a field and the environment variable that configures it.
type variable struct{ variable, name string }

func (f Fields) variables() [fieldCount]variable {
	return [fieldCount]variable{
		{"PENSTOCK_FIELD_AGGREGATE_ID", f.AggregateID},
		{"PENSTOCK_FIELD_AGGREGATE_TYPE", f.AggregateType},
		{"PENSTOCK_FIELD_EVENT_ID", f.EventID},
		{"PENSTOCK_FIELD_EVENT_TYPE", f.EventType},
		{"PENSTOCK_FIELD_TIMESTAMP", f.Timestamp},
		{"PENSTOCK_FIELD_PAYLOAD", f.Payload},
		{"PENSTOCK_FIELD_METADATA", f.Metadata},
	}
}
