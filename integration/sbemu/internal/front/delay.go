package front

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// delayLine delays incoming frames by the latency that a test set. Frames keep their
// order even when the latency changes. The delay line handles them on its own goroutine,
// never while the reader handles a frame.
type delayLine struct {
	start   sync.Once
	frames  chan delayedFrame
	done    chan struct{}
	pending atomic.Int64
	failure atomic.Pointer[error]
	ended   atomic.Bool // a frame ended the connection
}

type delayedFrame struct {
	channel uint16
	body    []byte
	due     time.Time
}

// busy reports whether delayed frames are pending.
func (d *delayLine) busy() bool { return d.pending.Load() > 0 }

// add delays a frame. It returns the error from handling an earlier frame, or nil.
func (d *delayLine) add(c *conn, f wire.Frame, latency time.Duration) error {
	d.start.Do(func() {
		d.frames = make(chan delayedFrame, 4096)
		d.done = make(chan struct{})

		go d.run(c)
	})

	if err := d.failure.Load(); err != nil {
		return *err
	}

	d.pending.Add(1)
	d.frames <- delayedFrame{
		channel: f.Channel,
		body:    append([]byte(nil), f.Body...),
		due:     time.Now().Add(latency),
	}

	return nil
}

func (d *delayLine) run(c *conn) {
	defer close(d.done)

	for f := range d.frames {
		if wait := time.Until(f.due); wait > 0 {
			c.flush()
			<-time.After(wait)
		}

		if !d.ended.Load() {
			err := c.handle(f.channel, f.body)
			if err != nil {
				d.failure.Store(&err)
			}

			if err != nil || c.closeRead.Load() {
				d.ended.Store(true)
				_ = c.net.SetReadDeadline(time.Now())
			}
		}

		if d.pending.Add(-1) == 0 {
			c.flush()
		}
	}
}

// close waits until all delayed frames have been handled.
func (d *delayLine) close() {
	if d.frames != nil {
		close(d.frames)
		<-d.done
	}
}
