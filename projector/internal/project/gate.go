package project

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// ErrPaused says that the writes of a projection are paused. Offer the events again.
var ErrPaused = errors.New("the projection is paused")

// gateWait is how long a track waits before a closed gate. A promotion pauses for much
// less. If its coordinator dies, the pause is longer, and the sessions must not wait in
// the engine meanwhile.
const gateWait = time.Second

// gates are the gates of all projections. The zero value is ready: all are open.
type gates struct {
	mu     sync.Mutex
	byName map[string]*gate
}

func (g *gates) of(name string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byName == nil {
		g.byName = make(map[string]*gate)
	}
	found := g.byName[name]
	if found == nil {
		found = &gate{changed: make(chan struct{})}
		g.byName[name] = found
	}
	return found
}

// gate lets the tracks of one projection in, from before they load until their writes are
// answered, as long as it is open.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside int
	// changed is closed, and replaced, when the gate opens or its last track leaves.
	changed chan struct{}
}

// enter waits until the gate is open. Whoever has entered leaves.
func (g *gate) enter(ctx context.Context) error {
	var timeout <-chan time.Time
	for {
		g.mu.Lock()
		if !g.closed {
			g.inside++
			g.mu.Unlock()
			return nil
		}
		changed := g.changed
		g.mu.Unlock()
		if timeout == nil {
			timer := time.NewTimer(gateWait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-timeout:
			return ErrPaused
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 {
		g.notify()
	}
}

func (g *gate) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// pause closes the gate, and waits until nobody is inside.
func (g *gate) pause(ctx context.Context) error {
	for {
		g.mu.Lock()
		g.closed = true
		inside, changed := g.inside, g.changed
		g.mu.Unlock()
		if inside == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	g.notify()
}

// enter goes through the gate of a target's projection, and gives how to leave. It fails if
// the target is no longer one of the present ones.
func (e *Engine) enter(ctx context.Context, t *Target) (leave func(), err error) {
	gate := e.gates.of(t.Projection.name)
	if err := gate.enter(ctx); err != nil {
		return nil, fmt.Errorf("write %s: %w", t, err)
	}
	if !e.serves(t) {
		gate.leave()
		return nil, fmt.Errorf("write %s: %w", t, model.ErrSuperseded)
	}
	return gate.leave, nil
}

// Pause stops the loads and writes of all generations of a projection, and returns when
// none is under way. Other projections go on. Units that wait longer than a second at the
// gate end with [ErrPaused]. If ctx ends first, the projection stays paused, and the
// error is the cause. [Engine.Continue] ends the pause.
func (e *Engine) Pause(ctx context.Context, projection string) error {
	if err := e.gates.of(projection).pause(ctx); err != nil {
		return fmt.Errorf("pause projection %s: %w", projection, err)
	}
	return nil
}

// Continue ends the pause of a projection. If it is not paused, nothing happens.
func (e *Engine) Continue(projection string) { e.gates.of(projection).open() }
