package testcase

import (
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/yamlplace"
)

// Event is a given event.
type Event struct {
	Line int
	// AggregateID is the canonical text of the id.
	AggregateID   string
	AggregateType string
	EventID       int64
	EventType     string

	rawAggregateID    bson.RawValue
	timestamp         bson.RawValue
	payload, metadata bson.RawValue
}

// Expected is the expected document of an aggregate.
type Expected struct {
	at                      *yaml.Node
	Projection, AggregateID string
	// Document is the expected document. Its Type is null if there must be none, and 0 if the
	// projection must have no documents at all. Then there is no AggregateID.
	Document bson.RawValue
}

// ExpectedParked is an aggregate that must be parked.
type ExpectedParked struct {
	at                      *yaml.Node
	Projection, AggregateID string
	// An EventID of -1 and an empty Reason or Error allow any value. Error is a part of
	// the error's text.
	EventID       int64
	Reason, Error string
}

// caseReader reads the steps of one case.
type caseReader struct {
	*File
	name string
	// defaults are the keys of the case.
	defaults map[string]*yaml.Node
	// at is the default timestamp of the next event.
	at time.Time
	// aggregate is the aggregate id of the event before.
	aggregate *yaml.Node
	// last are the ids of the aggregates' last events, and types their aggregate types.
	last  map[string]int64
	types map[string]*yaml.Node
}

// firstTimestamp is the default timestamp of a case's first event. Each further event is one second
// after the event before it.
var firstTimestamp = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (r *caseReader) step(node *yaml.Node, keys map[string]*yaml.Node) Step {
	s := Step{Line: node.Line}
	if given := keys["given"]; given != nil {
		if given.Kind != yaml.SequenceNode {
			r.problem(given, r.name, "given is a list of events: each starts with a dash and has an eventType")
			given = &yaml.Node{}
		}
		for _, n := range given.Content {
			if ev, ok := r.event(yamlplace.Resolve(n)); ok {
				s.Given = append(s.Given, ev)
			}
		}
	}
	if keys["expect"] == nil && keys["expectParked"] == nil {
		r.problem(node, r.name, "nothing is expected: add expect with documents, or expectParked")
	}
	if expect := keys["expect"]; expect != nil {
		s.Expect = r.expected(expect)
	}
	if parked := keys["expectParked"]; parked != nil {
		s.Parked = r.parked(parked)
	}
	if exact := keys["exact"]; exact != nil {
		if exact.Tag != "!!bool" {
			r.problem(exact, r.name, "exact is true or false")
		}
		s.Exact = exact.Value == "true"
	}
	for _, e := range s.Expect {
		if e.Document.Type == 0 && !s.Exact {
			r.problem(e.at, r.name, "no document of %s is expected, and any is allowed: name documents, or add exact: true if there must be none", e.Projection)
		}
	}
	return s
}

func (r *caseReader) event(node *yaml.Node) (Event, bool) {
	keys := r.mapping(node, r.name, "an event", eventKeys)
	if keys == nil {
		return Event{}, false
	}
	ev := Event{Line: node.Line}
	ev.EventType = r.text(keys["eventType"])
	if ev.EventType == "" {
		r.problem(node, r.name, "the event has no eventType")
	}
	for _, n := range []*yaml.Node{keys["aggregateId"], r.aggregate, r.defaults["aggregateId"]} {
		if n != nil {
			r.aggregate = n
			break
		}
	}
	if r.aggregate == nil {
		r.problem(node, r.name, "the event has no aggregateId, and neither has an event before it or the case")
		return ev, false
	}
	var ok bool
	if ev.AggregateID, ev.rawAggregateID, ok = r.aggregateID(r.aggregate); !ok {
		return ev, false
	}
	if n := keys["aggregateType"]; n != nil {
		r.types[ev.AggregateID] = n
	} else if r.types[ev.AggregateID] == nil {
		r.types[ev.AggregateID] = r.defaults["aggregateType"]
	}
	ev.AggregateType = r.text(r.types[ev.AggregateID])
	ev.EventID = r.eventID(keys["eventId"], ev.AggregateID)
	ev.timestamp = valueOf(r.at)
	if n := keys["timestamp"]; n != nil {
		ev.timestamp = r.value(n)
		if r.at, ok = ev.timestamp.TimeOK(); !ok {
			r.problem(n, r.name, "timestamp is a time such as 2026-01-31T12:00:00Z, without quotes")
		}
	}
	r.at = r.at.Add(time.Second)
	if n := keys["payload"]; n != nil {
		ev.payload = r.value(n)
	}
	if n := keys["metadata"]; n != nil {
		ev.metadata = r.value(n)
	}
	return ev, true
}

// text reads a text; empty if there is none.
func (r *caseReader) text(node *yaml.Node) string {
	if node == nil {
		return ""
	}
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		r.problem(node, r.name, "this takes a text")
		return ""
	}
	return node.Value
}

// eventID reads an event id. The default is one more than the aggregate's last id.
func (r *caseReader) eventID(node *yaml.Node, aggregate string) int64 {
	next := r.contract.FirstEventID
	if last, ok := r.last[aggregate]; ok {
		next = last + 1
	}
	if node != nil {
		id, err := strconv.ParseInt(node.Value, 10, 64)
		switch {
		case err != nil || id < r.contract.FirstEventID || node.Tag != "!!int":
			r.problem(node, r.name, "eventId is an integer from %d", r.contract.FirstEventID)
		case id != next:
			r.problem(node, r.name, "eventId is %d, and the next one of aggregate %s is %d: leave it out", id, aggregate, next)
		}
	}
	r.last[aggregate] = next
	return next
}

// aggregateID reads an id in one of the types of the event contract.
func (r *caseReader) aggregateID(node *yaml.Node) (string, bson.RawValue, bool) {
	v := r.value(node)
	document, err := bson.Marshal(bson.D{
		{Key: "aggregateId", Value: v}, {Key: "eventId", Value: int64(1)}, {Key: "eventType", Value: "E"},
	})
	if err == nil {
		var ev event.Event
		if ev, err = event.NewReader(r.contract).Read(document); err == nil {
			return ev.AggregateID, v, true
		}
	}
	r.problem(node, r.name, "read aggregateId: %v", err)
	return "", v, false
}

// expected reads documents by projection and aggregate.
func (r *caseReader) expected(node *yaml.Node) (found []Expected) {
	r.eachUnit(node, "expect", func(projection, aggregate, value *yaml.Node) {
		if aggregate == nil {
			found = append(found, Expected{at: projection, Projection: projection.Value})
			return
		}
		v := r.value(value)
		if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeNull {
			r.problem(value, r.name, "a document is a mapping of fields to values, or null for none")
			return
		}
		found = append(found, Expected{at: aggregate, Projection: projection.Value, AggregateID: r.unitID(aggregate), Document: v})
	})
	return found
}

// parked reads parked aggregates by projection and aggregate.
func (r *caseReader) parked(node *yaml.Node) (found []ExpectedParked) {
	r.eachUnit(node, "expectParked", func(projection, aggregate, value *yaml.Node) {
		if aggregate == nil {
			return // no other aggregate may be parked in any case
		}
		keys := r.mapping(value, r.name, "a parked aggregate", parkedKeys)
		p := ExpectedParked{
			at: aggregate, Projection: projection.Value, AggregateID: r.unitID(aggregate),
			EventID: -1, Reason: r.text(keys["reason"]), Error: r.text(keys["error"]),
		}
		if n := keys["eventId"]; n != nil {
			id, err := strconv.ParseInt(n.Value, 10, 64)
			if err != nil || id < r.contract.FirstEventID || n.Tag != "!!int" {
				r.problem(n, r.name, "eventId is an integer from %d: the event that parks the aggregate", r.contract.FirstEventID)
			}
			p.EventID = id
		}
		if n := keys["reason"]; n != nil && p.Reason == "" {
			r.problem(n, r.name, "the reason is empty: leave it out to mean any")
		}
		found = append(found, p)
	})
	return found
}

// unitID reads an aggregate's id or a view's key, which are texts. An integer has the same form as
// in aggregateId: 0x10 is 16.
func (r *caseReader) unitID(key *yaml.Node) string {
	if key.Tag == "!!int" {
		if n, ok := r.value(key).AsInt64OK(); ok {
			return strconv.FormatInt(n, 10)
		}
	}
	return key.Value
}

// eachUnit calls yield for each entry of a mapping of projections to mappings of
// aggregates, and with no aggregate for a projection without any.
func (r *caseReader) eachUnit(node *yaml.Node, key string, yield func(projection, aggregate, value *yaml.Node)) {
	projections, ok := r.entries(node, r.name)
	if !ok {
		r.problem(node, r.name, "%s is a mapping of projections to aggregates", key)
	}
	for _, p := range projections {
		aggregates, ok := r.entries(p.Value, r.name)
		if !ok {
			r.problem(p.Value, r.name, "%s has aggregates by their ids below each projection", key)
		}
		for _, a := range aggregates {
			yield(p.Node, a.Node, a.Value)
		}
		if ok && len(p.Value.Content) == 0 {
			yield(p.Node, nil, nil)
		}
	}
}
