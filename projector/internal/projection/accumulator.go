package projection

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Accumulator folds an aggregate's events part by part into one write, however long its
// history is. It keeps only the document and the last part of the events. Make it with
// [Projection.Begin]. It is not safe for concurrent use.
type Accumulator struct {
	projection *Projection
	document   *document
	last       int64
	concerned  bool
	failed     *Error
	// trace is set while Trace folds an event.
	trace *Trace
}

// Begin starts a fold. stored is the stored document that the events are folded into, with
// the engine's fields; nil to start from nothing.
func (p *Projection) Begin(stored bson.Raw) *Accumulator {
	return &Accumulator{projection: p, last: -1, document: newDocument(stored)}
}

// Add folds the next events, in the order of their ids. It ignores events that it has
// already folded. The caller must not leave out any.
//
// The result is nil if all were folded. Otherwise the event in the error failed. The events
// before it are folded, and those after it are not: all later calls give the same error.
func (a *Accumulator) Add(events []*event.Event) *Error {
	if a.failed != nil {
		return a.failed
	}
	views := make([]*Event, 0, len(events))
	last := a.last
	for _, ev := range events {
		if ev.EventID <= last {
			continue
		}
		views = append(views, NewEvent(ev))
		last = ev.EventID
		a.concerned = a.concerned || a.projection.Concerns(ev)
	}
	if len(views) == 0 {
		return nil
	}
	if a.last >= 0 {
		a.document.Detach()
	}
	f := a.projection.foldInto(context.Background(), a.document, views, a.trace, Unbounded)
	if f.Folded > 0 {
		a.last = views[f.Folded-1].EventID
	}
	a.failed = f.Err
	return a.failed
}

// Last is the last event that was folded; -1 if none was.
func (a *Accumulator) Last() int64 { return a.last }

// Concerned reports whether one of the events is of an aggregate that concerns the
// projection. If none is, the aggregate has no watermark in the projection.
func (a *Accumulator) Concerned() bool { return a.concerned }

// State returns the own fields of the document so far; nil if there is none.
func (a *Accumulator) State() State { return a.document.State() }

// View reports whether the projection is a view, so that the document is a part.
func (a *Accumulator) View() bool { return a.projection.view != nil }

// Size is the size of the own fields of the document so far, in bytes.
func (a *Accumulator) Size() int { return a.document.Size() }

// Write returns the write that brings a unit from the state that the fold started from to
// the last event that was folded; false if none was. The document of the state must be
// the one that the fold began with.
func (a *Accumulator) Write(u model.Unit, from model.State) (model.Write, bool) {
	if a.last < 0 {
		return model.Write{}, false
	}
	f := Fold{document: a.document, view: a.projection.view != nil}
	f.Conclude()
	return model.Write{
		Unit: u, Kind: f.Kind, From: from.Watermark, To: a.last, UpdatedAt: from.UpdatedAt, Foreign: from.Foreign,
		Document: f.Document, Update: f.Update, View: a.projection.View(),
	}, true
}
