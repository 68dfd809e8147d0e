package engine

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

// pauseWait is how long a track waits for a paused projection. A promotion pauses for much
// less. If its coordinator dies, the pause is longer, and the sessions must not wait in
// the engine meanwhile.
const pauseWait = time.Second

// pauseLocks are the locks of all projections. In the zero value no projection is paused.
type pauseLocks struct {
	mu     sync.Mutex
	byName map[string]*pauseLock
}

func (l *pauseLocks) of(name string) *pauseLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = make(map[string]*pauseLock)
	}
	found := l.byName[name]
	if found == nil {
		found = &pauseLock{changed: make(chan struct{})}
		l.byName[name] = found
	}
	return found
}

// pauseLock is a read-write lock of one projection whose waits end with a context. Each
// track holds it shared, from before it loads until its writes are answered. Pause takes
// it exclusively.
type pauseLock struct {
	mu      sync.Mutex
	paused  bool
	holders int
	// changed is closed and replaced when the pause ends or the last track releases.
	changed chan struct{}
}

// acquire takes the lock shared. If the projection stays paused for [pauseWait], the error
// is [ErrPaused]. The caller releases the lock.
func (l *pauseLock) acquire(ctx context.Context) error {
	var timeout <-chan time.Time
	for {
		l.mu.Lock()
		if !l.paused {
			l.holders++
			l.mu.Unlock()
			return nil
		}
		changed := l.changed
		l.mu.Unlock()
		if timeout == nil {
			timer := time.NewTimer(pauseWait)
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

func (l *pauseLock) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders--; l.holders == 0 {
		l.notify()
	}
}

func (l *pauseLock) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// pause takes the lock exclusively: later tracks wait, and it returns when no track holds
// the lock.
func (l *pauseLock) pause(ctx context.Context) error {
	for {
		l.mu.Lock()
		l.paused = true
		holders, changed := l.holders, l.changed
		l.mu.Unlock()
		if holders == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *pauseLock) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = false
	l.notify()
}

// enter acquires the pause lock of a target's projection, which the caller releases. It
// fails if the target is no longer one of the engine's.
func (e *Engine) enter(ctx context.Context, t *Target) (release func(), err error) {
	lock := e.pauseLocks.of(t.Projection.Name())
	if err := lock.acquire(ctx); err != nil {
		return nil, fmt.Errorf("write %s: %w", t, err)
	}
	if !e.serves(t) {
		lock.release()
		return nil, fmt.Errorf("write %s: %w", t, model.ErrSuperseded)
	}
	return lock.release, nil
}

// Pause stops the loads and writes of all generations of a projection, and returns when
// none is running. Other projections continue. Units that wait longer than a second for the
// projection end with [ErrPaused]. If ctx ends first, the projection stays paused, and the
// error is the cause of ctx. [Engine.Continue] ends the pause.
func (e *Engine) Pause(ctx context.Context, projection string) error {
	if err := e.pauseLocks.of(projection).pause(ctx); err != nil {
		return fmt.Errorf("pause projection %s: %w", projection, err)
	}
	return nil
}

// Continue ends the pause of a projection. If it is not paused, nothing happens.
func (e *Engine) Continue(projection string) { e.pauseLocks.of(projection).resume() }
