package virtual

import (
	"slices"
	"sync"

	"github.com/penstock-cdc/penstock/pkg/seat"
)

// Seats stand in for the run directory of a host (PENSTOCK_RUN_DIRECTORY), which the processes
// that use it share. The zero value is an empty one.
type Seats struct {
	mu    sync.Mutex
	taken map[string]*taken
}

// taken is a seat that had a holder.
type taken struct {
	holder     *Process
	identities []string
}

// of returns what takes seats for a process. As the kernel does, it releases them when the
// process has crashed or ended.
func (s *Seats) of(p *Process) seat.Taker {
	return func(name, identity string) ([]string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		t := s.taken[name]
		if t == nil {
			t = new(taken)
			if s.taken == nil {
				s.taken = make(map[string]*taken)
			}
			s.taken[name] = t
		}
		if t.holder != nil && !t.holder.dead.Load() {
			return nil, seat.ErrTaken
		}
		dead := slices.Clone(t.identities)
		t.holder, t.identities = p, append(t.identities, identity)
		return dead, nil
	}
}
