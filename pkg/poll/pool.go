package poll

import (
	"sync"
	"sync/atomic"
)

// Pool runs tasks, each in a goroutine of its own. A goroutine whose task has ended waits
// for the next one. The pool does not bound the number of running tasks; its owner must.
// Make it with [NewPool]. It is safe for concurrent use.
//
// A goroutine begins with a small stack. A task that calls deep into a driver or an interpreter
// grows that stack step by step, with a copy in each step. For many short tasks this costs more
// than the tasks themselves, so the goroutines are used again.
type Pool struct {
	tasks   chan func()
	stopped chan struct{}
	group   sync.WaitGroup
	// spare is how many more goroutines may wait for a task.
	spare atomic.Int64
}

// NewPool makes a pool in which at most idle goroutines wait for a task.
func NewPool(idle int) *Pool {
	p := &Pool{tasks: make(chan func()), stopped: make(chan struct{})}
	p.spare.Store(int64(idle))
	return p
}

// Do starts a task and does not wait for it.
func (p *Pool) Do(task func()) {
	select {
	case p.tasks <- task:
	default:
		p.group.Go(func() { p.run(task) })
	}
}

// run runs a task, and then further ones as long as its goroutine may wait for them.
func (p *Pool) run(task func()) {
	for {
		task()
		if p.spare.Add(-1) < 0 {
			p.spare.Add(1)
			return
		}
		select {
		case task = <-p.tasks:
			p.spare.Add(1)
		case <-p.stopped:
			return
		}
	}
}

// Stop ends the goroutines without a task, now and later. It does not wait for tasks. Call
// it once.
func (p *Pool) Stop() { close(p.stopped) }

// Wait waits until all tasks have ended. Call it after Stop. After it, Do must not be
// called.
func (p *Pool) Wait() { p.group.Wait() }
