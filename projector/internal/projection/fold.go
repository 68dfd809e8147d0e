package projection

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Fold is the result of folding consecutive events of one aggregate.
type Fold struct {
	// Kind is the kind of the write. There is a write even if only the watermark changes; 0
	// if no event was folded.
	Kind model.Kind
	// Document and Update are as in [model.Write].
	Document, Update bson.Raw
	// Folded is the number of folded events.
	Folded int
	// Applied says for each folded event whether it was applied or ignored.
	Applied []bool
	// Err is why the event after the folded ones failed; nil if all were folded.
	Err *Error

	// Grown is by how many bytes the document has grown beyond the events.
	Grown int

	document *document
	// view is set if the document is a part of a view.
	view   bool
	events int // bytes
}

// Unbounded is the room of folds of which the process has few at a time.
const Unbounded = math.MaxInt

// stop reports whether the fold must end after an event, which has made the document that
// large.
func (f *Fold) stop(ctx context.Context, room int, ev *Event, size int) bool {
	f.events += len(ev.Document) + len(ev.Payload.Value)
	f.Grown = size - len(f.document.Loaded) - f.events
	return f.Grown > room || ctx.Err() != nil
}

// State returns the own fields of the document after the fold; nil if there is none.
func (f *Fold) State() State { return f.document.State() }

// Fold folds events, in order, into a stored document with the engine's fields; nil if
// there is none. It stops before the first event that fails.
func (p *Projection) Fold(loaded bson.Raw, events []*event.Event) Fold {
	views := make([]*Event, len(events))
	for i, ev := range events {
		views[i] = NewEvent(ev)
	}
	f := p.foldInto(context.Background(), newDocument(loaded), views, nil, Unbounded)
	if f.Folded > 0 {
		f.Conclude()
	}
	return f
}

// FoldWithin folds events into a stored document until they make it grow by more than room
// beyond them, or until ctx ends. The fold does not have its write yet: [Fold.Conclude]
// determines it.
func (p *Projection) FoldWithin(ctx context.Context, loaded bson.Raw, events []*Event, room int) Fold {
	return p.foldInto(ctx, newDocument(loaded), events, nil, room)
}

// FoldAnew is FoldWithin for a history that begins anew with the first of the events, a snapshot:
// they are folded from nothing, and the write replaces the stored document.
func (p *Projection) FoldAnew(ctx context.Context, loaded bson.Raw, events []*Event, room int) Fold {
	d := newDocument(loaded)
	d.Clear()
	return p.foldInto(ctx, d, events, nil, room)
}

// foldInto folds into a document that may have been folded into before. The result does not
// have the write yet. t records the evaluations of handlers, unless it is nil. The fold ends
// after the first event that makes the document grow by more than room beyond the events, or
// after which ctx has ended. It then has no error.
func (p *Projection) foldInto(ctx context.Context, d *document, events []*Event, t *Trace, room int) Fold {
	f := Fold{document: d, view: p.view != nil, Applied: make([]bool, 0, len(events))}
	var reason Reason
	var err error
	if p.InCode() {
		reason, err = p.foldFunc(ctx, &f, events, room)
	} else {
		reason, err = p.foldHandlers(ctx, &f, events, t, room)
	}
	f.Folded = len(f.Applied)
	if err != nil {
		ev := events[f.Folded]
		f.Err = &Error{Projection: p.name, AggregateID: ev.AggregateID, EventID: ev.EventID, EventType: ev.EventType, Reason: reason, Err: err}
	}
	return f
}

// Conclude determines the write.
func (f *Fold) Conclude() {
	d := f.document
	switch {
	case d.Loaded != nil && d.Exists:
		f.Kind, f.Update = model.Update, d.Update()
	case d.Loaded != nil:
		f.Kind = model.Delete
	case d.Exists:
		f.Kind, f.Document = model.Create, d.State()
	case d.Created:
		f.Kind = model.Erase
	default:
		f.Kind = model.MoveWatermark
	}
	if f.view {
		f.Document, f.Update = d.Sorted(), nil
	}
}

func (p *Projection) foldHandlers(ctx context.Context, f *Fold, events []*Event, t *Trace, room int) (Reason, error) {
	s := &scope{trace: t}
	s.state.f = f.document
	for _, ev := range events {
		if !p.Concerns(ev.Event) {
			f.Applied = append(f.Applied, false)
			continue
		}
		s.event = ev
		applied, reason, err := p.handle(ctx, s, f.document)
		if err != nil {
			return reason, err
		}
		f.Applied = append(f.Applied, applied)
		if f.stop(ctx, room, ev, f.document.TouchedSize()) {
			break
		}
	}
	return "", nil
}

func (p *Projection) foldFunc(ctx context.Context, f *Fold, events []*Event, room int) (Reason, error) {
	before := f.document.State()
	state := before
	var err error
	for _, ev := range events {
		if !p.Concerns(ev.Event) {
			f.Applied = append(f.Applied, false)
			continue
		}
		var next State
		if next, err = p.call(state, ev.Event); err != nil {
			break
		}
		if next != nil && state == nil {
			f.document.Created = true
		}
		f.Applied = append(f.Applied, true)
		state = next
		if f.stop(ctx, room, ev, len(state)) {
			break
		}
	}
	if !same(before, state) {
		f.document.Replace(state)
	}
	if errors.Is(err, errTooDeep) {
		return ReasonRejected, err
	}
	return reasonOf(err, ReasonFunction), err
}

// same reports whether two states are the same memory, so that nothing has changed.
func same(a, b State) bool {
	return a == nil && b == nil || a != nil && b != nil && len(a) == len(b) && &a[0] == &b[0]
}

// maxCall is how long a function may take. It is much longer than any that only computes: after
// it, the function waits for something, or does not end.
const maxCall = 30 * time.Second

// errCallHangs is the error of a function that does not return.
var errCallHangs = fmt.Errorf("the function has not returned for %v: it must only compute, and wait for nothing", maxCall)

// errCallEnded is the error of a function that has called [runtime.Goexit].
var errCallEnded = errors.New("the function has ended its goroutine instead of returning")

// returned calls f on a goroutine of its own. So if f hangs or ends its goroutine, the fold goes
// on, and the event can be parked. An f that hangs keeps its goroutine. The time in which the
// process was stopped does not count, because a ticker drops ticks.
func returned[T any](f func() (T, error)) (result T, err error) {
	done := make(chan struct{})
	var late T
	lateErr := errCallEnded
	go func() {
		defer close(done)
		defer panicked(&lateErr)
		late, lateErr = f()
	}()
	ticks := time.NewTicker(maxCall / 30)
	defer ticks.Stop()
	for range 30 {
		select {
		case <-done:
			return late, lateErr
		case <-ticks.C:
		}
	}
	return result, errCallHangs
}

// panicked makes an error of a panic. It must be deferred.
func panicked(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
	}
}

// call calls the function of a projection in Go and checks its result.
func (p *Projection) call(state State, ev *event.Event) (next State, err error) {
	defer panicked(&err)
	given := *ev // a function that changes a field changes no watermark and no other projection
	next, err = returned(func() (State, error) { return p.sources[0].apply(state, &given) })
	if err != nil {
		return nil, err
	}
	if same(state, next) {
		return state, nil
	}
	if next == nil {
		if !p.deletes {
			return nil, errors.New("the state is gone, but the projection does not declare Deletes")
		}
		return nil, nil
	}
	if len(next) > fold.MaxState {
		return nil, fold.ErrOutgrown
	}
	if err := next.Validate(); err != nil {
		return nil, fmt.Errorf("the state is not a BSON document: %w", err)
	}
	for name, value := range fold.ReadFields(next).All() {
		if err := fold.Updatable(string(name)); err != nil {
			return nil, err
		}
		if err := checkCopy(value, 0); err != nil {
			return nil, fmt.Errorf("the field %s of the state: %w", name, err)
		}
	}
	return next, nil
}
