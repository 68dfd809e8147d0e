package projection

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/pkg/yamlplace"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// upcast turns an event of an earlier version into one of a later version. The rules see only
// the result.
type upcast struct {
	// when is nil if the upcast is for all events of the type.
	when *expression
	// payload is nil if the payload stays.
	payload *expression
	// to is the new event type; empty if it stays.
	to string
	// doing names the upcast in errors.
	doing operation
}

// upcasts are the upcasts of each event type. Each sees the result of those before it. An event
// whose type has changed goes on with the upcasts of its new type.
type upcasts map[string][]upcast

// The keys of an upcast besides when.
const (
	upcastPayload = "payload"
	upcastType    = "type"
)

var upcastKeys = []string{wordWhen, upcastPayload, upcastType}

// opUpcast names an upcast as an operation in errors. It is no word of a rule.
const opUpcast operator = "upcast"

// apply replaces the event of s by the result of its upcasts.
func (u upcasts) apply(s *scope) error {
	ev := *s.event.Event
	s.event.Event, s.event.payload = &ev, nil
	for {
		before := ev.EventType
		for i, steps := 0, u[before]; i < len(steps) && ev.EventType == before; i++ {
			if err := steps[i].apply(s); err != nil {
				return err
			}
		}
		if ev.EventType == before {
			return nil
		}
	}
}

func (u *upcast) apply(s *scope) error {
	s.doing = &u.doing
	if holds, err := u.when.holds(s, wordWhen, errNotBool); err != nil || !holds {
		return err
	}
	if u.payload != nil {
		v, ok, err := u.payload.run(s, upcastPayload)
		if err != nil {
			return err
		}
		if ok {
			payload, err := encodeValue(v, &s.event.meter)
			if err == nil && payload.Type != bson.TypeEmbeddedDocument {
				err = fmt.Errorf("the result is %s, and a payload is a document", fold.TypeName(payload))
			}
			if err != nil {
				return u.payload.failed(s, upcastPayload, err)
			}
			s.event.Payload, s.event.payload = payload, nil
		}
	}
	if u.to != "" {
		s.event.EventType = u.to
	}
	return nil
}

// upcasts reads a section of upcasts.
func (p place) upcasts(node *yaml.Node) {
	entries, ok := p.entries(node)
	if !ok {
		p.problem(node, "upcasts is a mapping of event types to their upcasts")
		return
	}
	for _, e := range entries {
		for _, eventType := range p.eventTypes(e.Key) {
			at := p.in("upcasts " + eventType)
			if first, taken := p.upcast.nodes[eventType]; taken {
				at.problem(e.Node, "the event type has upcasts at %s:%d: write all of them there, as a list", first.place.file, first.node.Line)
				continue
			}
			p.upcast.nodes[eventType] = section{at, e.Node}
			nodes := yamlplace.List(e.Value)
			if len(nodes) == 0 {
				at.problem(e.Node, "the event type has no upcast: leave it out")
			}
			for i, n := range nodes {
				u := at.upcastStep(n, eventType)
				p.upcast.all[eventType] = append(p.upcast.all[eventType], u)
				if u.to != "" && i+1 < len(nodes) && !hasKey(n, wordWhen) {
					at.problem(n, "no event comes to the upcasts after this one, because all become %s: write it last, or give it a when", u.to)
				}
			}
		}
	}
}

// upcastStep reads one upcast.
func (p place) upcastStep(node *yaml.Node, eventType string) upcast {
	u := upcast{doing: operation{op: opUpcast, path: fieldPath{{name: eventType}}}}
	keys, ok := p.keys(node, "an upcast", upcastKeys)
	if !ok {
		return u
	}
	if e, ok := keys[wordWhen]; ok {
		u.when = p.in(p.key+" "+wordWhen).ofEvent(e.Value, boolValue)
	}
	payload, changes := keys[upcastPayload]
	if changes {
		u.payload = p.in(p.key+" "+upcastPayload).ofEvent(payload.Value, payloadValue)
	}
	if e, ok := keys[upcastType]; ok {
		u.to = p.in(p.key+" "+upcastType).text(e.Value, func(text string) error {
			switch text {
			case "":
				return errors.New("the new event type is empty")
			case eventType:
				return errors.New("the event has this type already: leave it out")
			}
			return nil
		})
	} else if !changes {
		p.problem(node, "the upcast changes nothing: give it a payload, a type or both")
	}
	return u
}

// ofEvent compiles an expression over the event alone.
func (p place) ofEvent(node *yaml.Node, want resultKind) *expression {
	x := p.expression(node, want)
	if x == nil {
		return nil
	}
	for _, path := range inputs(x.checked.Expr()) {
		if path[0] == varState {
			p.problem(node, "an upcast depends on the event only, and state is of a read model: use state in the rules")
		}
	}
	return x
}

// leads reports whether an event of a type can become one of a type for which handled holds. seen
// are the types that were visited already.
func (u upcasts) leads(eventType string, handled func(string) bool, seen map[string]bool) bool {
	if seen[eventType] {
		return false
	}
	seen[eventType] = true
	return handled(eventType) || slices.ContainsFunc(u[eventType], func(step upcast) bool {
		return step.to != "" && u.leads(step.to, handled, seen)
	})
}

// leaves reports whether all events of a type get another one.
func (u upcasts) leaves(eventType string) bool {
	steps := u[eventType]
	return len(steps) > 0 && steps[len(steps)-1].to != "" && steps[len(steps)-1].when == nil
}

// of returns the upcasts that a projection sees.
func (u upcasts) of(on handlers) upcasts {
	seen := upcasts{}
	for eventType, steps := range u {
		if u.leads(eventType, func(t string) bool { return on[t] != nil }, map[string]bool{}) {
			seen[eventType] = steps
		}
	}
	return seen
}

// circle returns a chain of event types that ends where it begins; nil if there is none. seen are the
// types that were visited already.
func (u upcasts) circle(seen map[string]bool, chain ...string) []string {
	last := chain[len(chain)-1]
	for _, step := range u[last] {
		switch {
		case step.to == "":
		case step.to == chain[0]:
			return append(chain, step.to)
		case !seen[step.to]:
			seen[step.to] = true
			if found := u.circle(seen, append(slices.Clone(chain), step.to)...); found != nil {
				return found
			}
		}
	}
	return nil
}

// checkCircles reports upcasts that would not end. It returns false if there are any.
func (l *loader) checkCircles() bool {
	for _, eventType := range sortedKeys(l.upcast.all) {
		if circle := l.upcast.all.circle(map[string]bool{}, eventType); circle != nil {
			at := l.upcast.nodes[eventType]
			at.place.problem(at.node, "the upcasts go round in a circle: %s", strings.Join(circle, " → "))
			return false
		}
	}
	return true
}

// checkGaps reports upcasts to event types of which nothing is known.
func (l *loader) checkGaps() {
	for _, eventType := range sortedKeys(l.upcast.all) {
		for _, step := range l.upcast.all[eventType] {
			known := l.handled[step.to] || l.upcast.all[step.to] != nil || l.declared[step.to] != ""
			if step.to != "" && !known {
				at := l.upcast.nodes[eventType]
				at.place.problem(at.node, "the events become %s%s, for which there is neither a rule nor another upcast: write one, or declare the type in the section events", step.to, similar.Meant(step.to, sortedKeys(l.handled)))
			}
		}
	}
}

// describe returns upcasts in canonical form.
func (u upcasts) describe() map[string]any {
	described := map[string]any{}
	for eventType, steps := range u {
		list := make([]any, len(steps))
		for i, step := range steps {
			m := map[string]any{}
			if step.when != nil {
				m[wordWhen] = step.when.canonical
			}
			if step.payload != nil {
				m[upcastPayload] = step.payload.canonical
			}
			if step.to != "" {
				m[upcastType] = step.to
			}
			list[i] = m
		}
		described[eventType] = list
	}
	return described
}
