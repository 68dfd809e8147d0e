package projection

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// The variables of expressions. All except event and state are also fields of event.
const (
	varEvent         = "event"
	varState         = "state"
	varPayload       = "payload"
	varMetadata      = "metadata"
	varAggregateID   = "aggregateId"
	varAggregateType = "aggregateType"
	varEventID       = "eventId"
	varEventType     = "eventType"
	varTimestamp     = "timestamp"
	// varPart is the state in the expressions of a view, and varElement an element of each.
	varPart    = "part"
	varElement = "element"
)

// Event is an event as expressions see it. It is made once and shared by all
// projections of one call. It is not safe for concurrent use.
type Event struct {
	*event.Event
	variable          eventVariable
	payload, metadata ref.Val
	// meter charges the projection that folds the event.
	meter meter
}

// eventVariable is the variable event.
type eventVariable struct {
	mapValue
}

// NewEvent prepares an event for expressions. The event must not change as long as the result
// is used.
func NewEvent(ev *event.Event) *Event {
	v := &Event{Event: ev}
	v.variable.f = v
	return v
}

// forget drops what the evaluations of one projection have kept.
func (v *Event) forget() {
	for _, value := range [2]*ref.Val{&v.payload, &v.metadata} {
		if d, ok := (*value).(*documentValue); ok {
			d.large = nil
		} else {
			*value = nil
		}
	}
}

// resolve returns a field of the contract. If the event lacks the field, aggregateType is
// an empty text, payload and metadata are empty maps, and timestamp is absent.
func (v *Event) resolve(name string) (ref.Val, bool) {
	switch name {
	case varPayload:
		if v.payload == nil {
			v.payload = v.valueOrEmpty(v.Payload)
		}
		return v.payload, true
	case varMetadata:
		if v.metadata == nil {
			v.metadata = v.valueOrEmpty(v.Metadata)
		}
		return v.metadata, true
	case varAggregateID:
		return types.String(v.AggregateID), true
	case varAggregateType:
		return types.String(v.AggregateType), true
	case varEventID:
		return types.Int(v.EventID), true
	case varEventType:
		return types.String(v.EventType), true
	case varTimestamp:
		if !v.HasTimestamp() {
			return nil, false
		}
		return types.Timestamp{Time: v.Timestamp.UTC()}, true
	}
	return nil, false
}

func (v *Event) valueOrEmpty(value bson.RawValue) ref.Val {
	if !fold.Present(value) {
		return newDocumentValue(fold.EmptyDocument, &v.meter)
	}
	return celValue(value, &v.meter)
}

// contract lists the names that resolve knows, sorted.
var contract = []string{varAggregateID, varAggregateType, varEventID, varEventType, varMetadata, varPayload, varTimestamp}

// find returns a field of the variable event. Fields of the contract have the contract's
// names, even if the store uses others. Other fields have the store's names.
func (v *Event) find(name string) (ref.Val, bool) {
	if value, ok := v.resolve(name); ok {
		return value, true
	}
	value, ok := v.meter.lookup(v.Document, name)
	if !ok {
		return nil, false
	}
	return celValue(value, &v.meter), true
}

func (v *Event) count() int {
	n := 0
	v.entries(func(string, ref.Val) bool { n++; return true })
	return n
}

func (v *Event) entries(visit func(name string, value ref.Val) bool) {
	for _, name := range contract {
		if value, ok := v.resolve(name); ok && !visit(name, value) {
			return
		}
	}
	for name, value := range v.meter.fields(v.Document).all() {
		if _, known := v.resolve(alias(name)); !known && !visit(alias(name), celValue(value, &v.meter)) {
			return
		}
	}
}

// stateView is the variable state.
type stateView struct {
	mapValue
}

// scope resolves the variables of an expression.
type scope struct {
	event *Event
	state stateView
	// element is the element of each for which a view is computed; nil if there is none.
	element ref.Val
	// doing is the operation that is evaluated or carried out; nil before one is chosen.
	doing *operation
	// trace is nil except in explanations.
	trace *Trace
}

var _ cel.Activation = (*scope)(nil)

// ResolveName returns the value of a variable. CEL calls it for each variable that an
// expression uses.
func (s *scope) ResolveName(name string) (any, bool) {
	switch name {
	case varEvent:
		return &s.event.variable, true
	case varState, varPart:
		return &s.state, true
	case varElement:
		return s.element, s.element != nil
	case varMeter:
		return &s.event.meter, true
	case varTimestamp:
		if form := s.event.UnreadableTimestamp(); form != "" {
			return types.NewErr("the event has no time, because its timestamp is %s: let the writer store a date, or read event.%s", form, varTimestamp), true
		}
	}
	return s.event.resolve(name)
}

// part names a part of the operation that is evaluated, for errors and traces; the operation
// itself if word is empty.
func (s *scope) part(word string) string {
	switch {
	case s.doing == nil:
		return word
	case word == "":
		return s.doing.String()
	}
	return s.doing.String() + ": " + word
}

// Parent returns nil: there is no outer scope.
func (s *scope) Parent() cel.Activation { return nil }
