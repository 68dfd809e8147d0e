package front

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// delayLine holds incoming frames back for the latency that a test asked for.
// Frames keep their order, also when the latency changes, and are handled on
// a goroutine of its own, never at the same time as the reader handles one.
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

// busy reports whether frames are held back.
func (d *delayLine) busy() bool { return d.pending.Load() > 0 }

// add holds a frame back. It returns why handling an earlier one failed.
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

// close waits until all frames were handled.
func (d *delayLine) close() {
	if d.frames != nil {
		close(d.frames)
		<-d.done
	}
}
