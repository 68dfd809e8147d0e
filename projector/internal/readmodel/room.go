package readmodel

import (
	"context"
	"sync"
)

// rooms bound what waits in each lane of a gatherer. The zero value is ready.
type rooms struct {
	mu     sync.Mutex
	byLane map[string]*room
}

// of gives the room of a lane.
func (r *rooms) of(lane string, most int) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byLane == nil {
		r.byLane = make(map[string]*room)
	}
	found := r.byLane[lane]
	if found == nil {
		found = &room{most: most, left: make(chan struct{}, 1)}
		r.byLane[lane] = found
	}
	return found
}

// room counts items. As long as it is not full, a caller enters with all of its items,
// so that it never waits for room that it has itself.
type room struct {
	most int

	mu      sync.Mutex
	waiting int
	// left holds a token while somebody may try to enter.
	left chan struct{}
}

func (r *room) enter(ctx context.Context, n int, ended <-chan struct{}) error {
	for !r.tryEnter(n) {
		select {
		case <-r.left:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return ErrClosed
		}
	}
	return nil
}

func (r *room) tryEnter(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting >= r.most {
		return false
	}
	r.waiting += n
	if r.waiting < r.most {
		r.wake()
	}
	return true
}

func (r *room) leave(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting -= n
	if r.waiting < r.most {
		r.wake()
	}
}

// wake lets one caller try; if it enters and there is more room, it wakes the next.
func (r *room) wake() {
	select {
	case r.left <- struct{}{}:
	default:
	}
}

// entered are the rooms that a request has entered, and with how many items.
type entered map[*room]int

func (e entered) leave() {
	for room, n := range e {
		room.leave(n)
	}
}
