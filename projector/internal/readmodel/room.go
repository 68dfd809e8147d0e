package readmodel

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
)

// rooms bound the waiting items of each lane of a gatherer. The zero value is ready. There
// are few lanes and many callers, so looking up an existing lane takes no lock.
type rooms struct {
	mu     sync.Mutex
	byLane atomic.Pointer[map[string]*room]
}

// of gives the room of a lane.
func (r *rooms) of(lane string, most int) *room {
	if found := r.find(lane); found != nil {
		return found
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.find(lane); found != nil {
		return found
	}
	next := make(map[string]*room)
	if known := r.byLane.Load(); known != nil {
		maps.Copy(next, *known)
	}
	made := &room{most: most, left: make(chan struct{}, 1)}
	next[lane] = made
	r.byLane.Store(&next)
	return made
}

func (r *rooms) find(lane string) *room {
	known := r.byLane.Load()
	if known == nil {
		return nil
	}
	return (*known)[lane]
}

// room counts items. While it is not full, a caller enters with all of its items at once,
// so that a caller never waits for room that it uses itself.
type room struct {
	most int

	mu      sync.Mutex
	waiting int
	// left holds a token if a caller may try to enter.
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

// wake lets one caller try to enter. If it enters and there is more room, it wakes the
// next.
func (r *room) wake() {
	select {
	case r.left <- struct{}{}:
	default:
	}
}

// entered are the rooms that a request has entered, and with how many items.
type entered []entry

type entry struct {
	*room
	items int
}

// add counts an item for a room.
func (e entered) add(r *room) entered {
	for i := range e {
		if e[i].room == r {
			e[i].items++
			return e
		}
	}
	return append(e, entry{r, 1})
}

func (e entered) leave() {
	for _, in := range e {
		in.leave(in.items)
	}
}
