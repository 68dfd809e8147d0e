package engine

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Session processes the events of sessions of the topic that this process holds. No other
// process has these sessions, so a document that the engine has written is most likely still
// stored. The Session keeps it, and folds the next events into it without a load. It also
// assumes that an aggregate has no read model if its first event arrives.
//
// One Session serves all sessions of the process, one after the other and at the same time. If
// another process has written a read model since, the next event is not the successor of the
// kept state, and the unit is loaded.
//
// Both assumptions can be wrong. Every write of such a state is guarded by more than its
// watermark: an Update also by the time of the document's last change
// ([model.Write].Exact), and a Create by the insert. If the guard does not match, or the
// fold fails, the unit is loaded and folded again. So a kept state only affects how fast an
// event is applied.
//
// Make it with [Engine.Session]. It is safe for concurrent use.
type Session struct {
	engine *Engine

	mu sync.Mutex
	// kept are the elements of written, which has the kept states in the order in which they
	// were written.
	kept    map[model.Unit]*list.Element
	written list.List
	// left is how many bytes more may be kept.
	left int
}

// keptState is the state of a unit as this process has written it.
type keptState struct {
	unit   model.Unit
	target *Target
	state  model.State
}

// keptOverhead is the approximate memory of a kept state without its document and id.
const keptOverhead = 320

func (k *keptState) size() int {
	return len(k.state.Document) + len(k.unit.AggregateID) + keptOverhead
}

// Session begins a session. It keeps up to about that many bytes of read models, those
// written last. With 0 it keeps none.
func (e *Engine) Session(bytes int) *Session {
	return &Session{engine: e, left: bytes, kept: make(map[model.Unit]*list.Element)}
}

// Process is [Engine.Process] for events of sessions.
func (s *Session) Process(ctx context.Context, events []*event.Event, since time.Time) ([]model.Verdict, error) {
	return s.engine.process(ctx, s, events, since)
}

// Park is [Engine.Park].
func (s *Session) Park(ctx context.Context, events []*event.Event, reason projection.Reason, err error, since time.Time) ([]model.Verdict, error) {
	return s.engine.Park(ctx, events, reason, err, since)
}

// take removes the kept state of a unit and returns it; false if there is none, or if its
// target was replaced.
func (s *Session) take(u *unit) (model.State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[u.Unit] == nil {
		return model.State{}, false
	}
	k := s.remove(s.kept[u.Unit])
	if k.target != u.target {
		return model.State{}, false
	}
	return k.state, true
}

// keep keeps the state of a unit, and evicts older ones if necessary.
func (s *Session) keep(u *unit, state model.State) {
	k := &keptState{unit: u.Unit, target: u.target, state: state}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.kept[u.Unit]; old != nil {
		s.remove(old)
	}
	for s.left < k.size() && s.written.Len() > 0 {
		s.remove(s.written.Front())
	}
	if s.left < k.size() {
		return
	}
	s.left -= k.size()
	s.kept[u.Unit] = s.written.PushBack(k)
}

// remove removes a state and returns it. The caller holds the lock.
func (s *Session) remove(e *list.Element) *keptState {
	k := s.written.Remove(e).(*keptState)
	delete(s.kept, k.unit)
	s.left += k.size()
	return k
}

// newcomers reports whether an aggregate whose first event arrives may be assumed to be
// new. If one was not, the topic may be repeating a history, so the next ones are loaded.
type newcomers struct{ pause atomic.Int64 }

// newcomerPause is how many units are loaded after a unit that was not new.
const newcomerPause = 256

func (n *newcomers) expected() bool { return n.pause.Load() <= 0 || n.pause.Add(-1) < 0 }

func (n *newcomers) wrong() { n.pause.Store(newcomerPause) }
