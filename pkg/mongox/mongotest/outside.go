package mongotest

import "sync"

// maxRequests bounds the requests of [Collection]s that run at the same time.
const maxRequests = 32

// worker is a goroutine outside of all bubbles of testing/synctest. A goroutine of a bubble
// cannot start one, and the driver's goroutines must not use channels of a bubble.
type worker struct {
	run  chan func()
	done chan struct{}
}

// startWorkers starts the goroutines that execute requests, and returns the function that
// ends them.
func (s *Server) startWorkers() (stop func()) {
	s.idle = make(chan worker, maxRequests)
	var running sync.WaitGroup
	var workers []worker
	for range maxRequests {
		w := worker{run: make(chan func()), done: make(chan struct{})}
		workers = append(workers, w)
		s.idle <- w
		running.Go(func() {
			for f := range w.run {
				f()
				w.done <- struct{}{}
			}
		})
	}
	return func() {
		for _, w := range workers {
			close(w.run)
		}
		running.Wait()
	}
}

// outside runs f in a goroutine outside of any bubble, and waits for it. A goroutine that
// waits here is not durably blocked, so virtual time stands still meanwhile.
func (s *Server) outside(f func()) {
	w := <-s.idle
	w.run <- f
	<-w.done
	s.idle <- w
}
