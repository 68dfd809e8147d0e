package leader_test

import (
	"errors"
	"time"
)

// settle waits for a leader and then for a random time, so that the fault occurs at any
// time between two renewals.
func settle(e *episode) (int, error) {
	first, ok := e.await(time.Minute)
	if !ok {
		return 0, errors.New("nobody led within a minute")
	}
	sleep(e.upTo(3 * e.config.LeaseDuration))
	return first, nil
}

// takenOver waits until a process takes over from the first one, and then for a lease. The
// takeover is counted from a time that since returns then.
func (e *episode) takenOver(first int, since func() time.Time) outcome {
	next, ok := e.await(2 * time.Minute)
	if !ok || next == first {
		return outcome{err: errors.New("nobody took over")}
	}
	o := outcome{takeover: time.Since(since())}
	sleep(e.config.LeaseDuration)
	return o
}

// crashes kills the leader.
func crashes(e *episode, first int) outcome {
	begun := time.Now()
	e.crash(first)
	return e.takenOver(first, func() time.Time { return begun })
}

// restarts kills the leader and starts it again with the same identity. Requests that it has sent
// may still reach the store.
func restarts(e *episode, first int) outcome {
	begun := time.Now()
	e.crash(first)
	sleep(e.upTo(time.Second))
	e.start(penstock, first)
	return e.takenOver(first, func() time.Time { return begun })
}

// handovers stops the leader, which drains for up to 8 s; takeover is counted from
// the end of the drain.
func handovers(e *episode, first int) outcome {
	e.processes[first].stop()
	return e.takenOver(first, func() time.Time {
		e.mu.Lock()
		defer e.mu.Unlock()
		end := time.Now()
		for _, s := range e.timeline {
			if s.process == first {
				end = s.end
			}
		}
		return end
	})
}

// losses cuts the leader's connection to the lock store in one of three ways, permanently
// or for some time. If the outage is short, the leader may keep the lease.
func losses(e *episode, first int) outcome { return e.lose(first) }

// commonLosses is losses, in which the standbys may also lose their connection for a
// while.
func commonLosses(e *episode, first int) outcome {
	e.loseStandbys(first)
	return e.lose(first)
}

// deletionWithLosses removes the lock while standbys may be disconnected, and then
// disconnects the leader.
func deletionWithLosses(e *episode, first int) outcome {
	e.loseStandbys(first)
	sleep(e.upTo(2 * e.config.LeaseDuration))
	e.store.remove()
	return e.lose(first)
}

// loseStandbys disconnects some standbys for a while.
func (e *episode) loseStandbys(first int) {
	for number, p := range e.processes {
		if number != first && e.rng.IntN(2) == 0 {
			p.link.set(contact(1 + e.rng.IntN(3)))
			time.AfterFunc(e.upTo(2*e.config.LeaseDuration), func() { p.link.set(connected) })
		}
	}
}

func (e *episode) lose(first int) outcome {
	begun := time.Now()
	link := e.processes[first].link
	link.set(contact(1 + e.rng.IntN(3)))
	if e.rng.IntN(2) == 0 {
		time.AfterFunc(e.upTo(3*e.config.LeaseDuration), func() { link.set(connected) })
	}
	var o outcome
	for {
		next, ok := e.await(4 * e.config.LeaseDuration)
		if !ok {
			break
		}
		if next != first && o.takeover == 0 {
			o.takeover = time.Since(begun)
		}
	}
	return o
}

// deletions removes the lock several times, at any moment. The leader creates it again
// and continues to lead, also if a candidate reads the lock first.
func deletions(e *episode, _ int) outcome {
	for range 5 {
		e.store.remove()
		if _, ok := e.await(e.config.LeaseDuration + e.upTo(e.config.LeaseDuration)); ok {
			return outcome{err: errors.New("a deleted lock ended a term")}
		}
	}
	return outcome{}
}

// chaos connects and disconnects every link at random for three minutes.
func chaos(e *episode, _ int) outcome {
	until := time.Now().Add(3 * time.Minute)
	for time.Now().Before(until) {
		e.processes[e.rng.IntN(candidates)].link.set(contact(e.rng.IntN(4)))
		sleep(e.upTo(e.config.LeaseDuration / 2))
	}
	for _, p := range e.processes {
		p.link.set(connected)
	}
	return outcome{}
}
