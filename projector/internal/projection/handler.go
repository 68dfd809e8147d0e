package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// handler is a rule of a declared projection for one event type.
type handler struct {
	// when is nil if the rule always holds.
	when       *expression
	operations []operation
	// computed is set if an operation has a computed path.
	computed bool
	// delete excludes operations.
	delete bool
}

// handlers are the rules of a declared projection, by event type. The first one whose
// condition holds is applied.
type handlers map[string][]*handler

// deletes reports whether a rule ever deletes the document.
func (from *source) deletes() bool {
	for _, rules := range from.on {
		if slices.ContainsFunc(rules, func(h *handler) bool { return h.delete }) {
			return true
		}
	}
	return false
}

// handle folds one event into d. applied is false if the event changes nothing because no rule is
// for it. On an error, d is unchanged.
func (p *Projection) handle(ctx context.Context, s *scope, d *document) (applied bool, reason Reason, err error) {
	from := p.source(s.event.AggregateType)
	rules, ok := from.on[s.event.EventType]
	upcast := p.upcasts[s.event.EventType] != nil
	if !ok && !upcast {
		return false, "", nil
	}
	m := &s.event.meter
	s.doing = nil
	d.meter = m
	changing := false
	defer func() {
		m.end()
		s.event.forget()
		d.meter, d.large = nil, nil
		if r := recover(); r != nil {
			limit, ok := r.(limitError)
			if !ok {
				panic(r)
			}
			if changing {
				d.Undo()
			}
			applied, reason, err = false, ReasonExpression, limit.error
			if s.doing != nil {
				err = fmt.Errorf("%s: %w", s.doing, err)
			}
		}
		if errors.Is(err, ErrBusy) {
			reason = ReasonUnavailable // at another time, there may be enough
		}
	}()
	m.begin(ctx, len(s.event.Document)+len(s.event.Payload.Value))
	if upcast {
		original, payload := s.event.Event, s.event.payload
		defer func() { s.event.Event, s.event.payload = original, payload }()
		if err := p.upcasts.apply(s); err != nil {
			return false, ReasonExpression, err
		}
		rules, s.doing = from.on[s.event.EventType], nil
	}
	if declared := p.types[s.event.EventType]; declared != nil && fold.Present(s.event.Payload) {
		if err := declared.check(s.event.Payload); err != nil {
			return false, ReasonSchema, err
		}
	}
	h, err := choose(rules, s)
	if h == nil {
		if s.trace != nil && err == nil {
			s.trace.LeftOut = noRule(rules, s.event.EventType)
		}
		return false, ReasonExpression, err
	}
	if h.delete {
		d.Clear()
		return true, "", nil
	}
	values, err := h.evaluate(s, m)
	var paths []fieldPath
	if err == nil && h.computed {
		paths, err = h.resolve(s)
	}
	if err != nil {
		return false, reasonOf(err, ReasonExpression), err
	}
	d.Save()
	changing = true
	for i := range h.operations {
		o := &h.operations[i]
		if o.value != nil && !fold.Present(values[i]) {
			continue
		}
		s.doing = o
		path := o.path
		if h.computed {
			path = paths[i]
		}
		if path == nil {
			continue
		}
		if err := o.apply(d, path, values[i]); err != nil {
			d.Undo()
			return false, ReasonOperation, fmt.Errorf("%s: %w", o, err)
		}
	}
	if err := from.refresh(s, d); err != nil {
		d.Undo()
		return false, reasonOf(err, ReasonExpression), err
	}
	if d.Outgrown() {
		d.Undo()
		return false, ReasonRejected, fold.ErrOutgrown
	}
	return true, "", nil
}

// reasonOf is the reason for an error: [ReasonRejected] if the document would become too large,
// otherwise the given one.
func reasonOf(err error, otherwise Reason) Reason {
	if errors.Is(err, fold.ErrOutgrown) {
		return ReasonRejected
	}
	return otherwise
}

// refresh computes what depends on the document alone, after an event has changed it.
func (from *source) refresh(s *scope, d *document) error {
	if !d.Exists {
		return nil
	}
	if err := from.compute.refresh(s, d); err != nil || from.contribution == nil {
		return err
	}
	return from.contribution.refresh(s, d)
}

// arrange sorts the operations if several change one field of the document. They can create
// fields and elements in it, whose order a loop over them shows. The order of the operations
// in the file is not a part of the definition, so it must not decide.
func (h *handler) arrange() {
	h.computed = slices.ContainsFunc(h.operations, func(o operation) bool { return o.path.computed() })
	fields := map[string]bool{}
	for i := range h.operations {
		fields[h.operations[i].path[0].name] = true
	}
	if len(fields) == len(h.operations) {
		return
	}
	slices.SortFunc(h.operations, func(a, b operation) int { return strings.Compare(a.canonical(), b.canonical()) })
}

// resolve returns the paths of the operations for one event; nil for those without effect.
func (h *handler) resolve(s *scope) ([]fieldPath, error) {
	paths := make([]fieldPath, len(h.operations))
	for i := range h.operations {
		o := &h.operations[i]
		paths[i] = o.path
		if !o.path.computed() {
			continue
		}
		s.doing = o
		var err error
		if paths[i], err = o.path.resolve(s); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// choose returns the first rule that holds; nil if none does.
func choose(rules []*handler, s *scope) (*handler, error) {
	for _, h := range rules {
		if holds, err := h.when.holds(s, wordWhen, errNotBool); err != nil {
			return nil, err
		} else if holds {
			return h, nil
		}
	}
	return nil, nil
}

// evaluate returns the values of the operations; absent if an operation has no effect.
func (h *handler) evaluate(s *scope, m *meter) ([]bson.RawValue, error) {
	values := make([]bson.RawValue, len(h.operations))
	for i := range h.operations {
		o := &h.operations[i]
		if o.value == nil {
			continue
		}
		var err error
		if values[i], err = o.evaluate(s, m); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// evaluate returns the value of the operation; absent if it has no effect.
func (o *operation) evaluate(s *scope, m *meter) (value bson.RawValue, err error) {
	s.doing = o
	v, ok, err := o.value.eval(s)
	if err == nil && ok {
		value, err = encodeValue(v, m)
	}
	if s.trace != nil {
		s.trace.note(o.String(), o.value, s, v, err)
	}
	return value, o.value.failed(s, "", err)
}
