package front

import (
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// append appends a frame to the output. The caller holds the lock and must signal the
// writer.
func (c *conn) append(channel uint16, p wire.Performative) {
	if c.stopped {
		return
	}

	var at int

	c.output, at = wire.BeginFrame(c.output, wire.FrameAMQP, channel)
	c.output = wire.EndFrame(p.Append(c.output), at)
	c.limit()
}

// limit ends the connection if too much output is pending: the client sends requests, but
// does not read the replies or grants no credit for them. The caller holds the lock.
func (c *conn) limit() {
	if len(c.output)+c.waiting+c.held > outputLimit {
		c.stopped = true
		_ = c.net.Close()
	}
}

// send appends a frame and signals the writer.
func (c *conn) send(channel uint16, p wire.Performative) {
	c.mu.Lock()
	c.flushSettled()
	c.append(channel, p)
	c.mu.Unlock()
	c.signal()
}

// signal wakes the writer.
func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// full reports whether links must wait. The caller holds the lock.
func (c *conn) full() bool { return c.stopped || len(c.output)+c.waiting > outputHigh }

// block adds a link to the list of blocked links. The caller holds the lock.
func (c *conn) block(l *outgoing) {
	if !l.blocked {
		l.blocked = true
		c.blocked = append(c.blocked, l)
	}
}

// unblock removes and returns all blocked links. The caller holds the lock.
func (c *conn) unblock() []*outgoing {
	links := c.blocked
	c.blocked = nil

	for _, l := range links {
		l.blocked = false
	}

	return links
}

// chunk is output that is sent after a delay.
type chunk struct {
	data []byte
	due  time.Time
}

// write writes the output until the connection ends.
func (c *conn) write() {
	defer func() {
		c.mu.Lock()
		c.stopped = true
		c.mu.Unlock()

		_ = c.net.Close()
	}()

	var (
		spare   []byte
		delayed []chunk
		timer   = time.NewTimer(time.Hour)
	)

	defer timer.Stop()

	for {
		c.mu.Lock()
		out, stopped := c.output, c.stopped
		c.output = spare[:0]
		c.waiting += len(out)
		links := c.unblock()
		c.mu.Unlock()

		for _, l := range links {
			l.resume()
		}

		latency := time.Duration(c.srv.Faults.latencyOut.Load())

		switch {
		case len(out) == 0:
			spare = out
		case latency == 0 && len(delayed) == 0:
			if !c.put(out) {
				return
			}

			spare = reusable(out)
		default:
			delayed = append(delayed, chunk{data: out, due: time.Now().Add(latency)})
			spare = nil
		}

		for len(delayed) > 0 && !time.Now().Before(delayed[0].due) {
			if !c.put(delayed[0].data) {
				return
			}

			delayed = delayed[1:]
		}

		if stopped && len(out) == 0 && len(delayed) == 0 {
			return
		}

		if len(out) == 0 && !c.await(timer, delayed) {
			c.mu.Lock()
			c.output = wire.AppendKeepAlive(c.output)
			c.mu.Unlock()
		}
	}
}

// put writes bytes.
func (c *conn) put(b []byte) bool {
	_, err := c.net.Write(b)

	c.mu.Lock()
	c.waiting -= len(b)
	c.mu.Unlock()

	return err == nil
}

// await waits for output, or until a delayed chunk is due. It returns false if a
// keep-alive is due.
func (c *conn) await(timer *time.Timer, delayed []chunk) bool {
	var idle time.Duration

	switch {
	case len(delayed) > 0:
		timer.Reset(time.Until(delayed[0].due))
	case c.peerIdle > 0:
		idle = c.peerIdle / 2
		timer.Reset(idle)
	default:
		timer.Reset(time.Hour)
	}

	select {
	case <-c.wake:
		return true
	case <-timer.C:
		return idle == 0
	}
}

// reusable returns the buffer for reuse, unless it grew very large.
func reusable(b []byte) []byte {
	if cap(b) > 4*outputHigh {
		return nil
	}

	return b
}

// settledRange is a range of accepted deliveries that are not reported yet. One frame
// reports the whole range.
type settledRange struct {
	session     *session // nil: the range is empty
	role        wire.Role
	first, last uint32
}

// accepted adds an accepted delivery to the range. The caller holds the lock.
func (c *conn) accepted(s *session, role wire.Role, first, last uint32) {
	r := &c.settled

	if r.session == s && r.role == role && first == r.last+1 {
		r.last = last

		return
	}

	c.flushSettled()
	*r = settledRange{session: s, role: role, first: first, last: last}
}

// flushSettled reports the range that accepted collected. The caller holds the lock.
func (c *conn) flushSettled() {
	r := c.settled
	if r.session == nil {
		return
	}

	c.settled = settledRange{}
	c.append(r.session.channel, &wire.Disposition{
		Role:    r.role,
		First:   r.first,
		Last:    r.last,
		Settled: true,
		State:   wire.Accepted,
	})
}
