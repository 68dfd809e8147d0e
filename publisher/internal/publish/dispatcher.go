package publish

import (
	"context"
	"errors"
	"fmt"
)

// ErrClosed says that the dispatcher accepts no more events: it drains or has
// ended.
var ErrClosed = errors.New("dispatcher is closed")

// Dispatcher publishes the events of one term. Make it with [New], have [Dispatcher.Run]
// running, and feed it with [Dispatcher.Submit].
type Dispatcher struct {
	options Options
}

// New makes a dispatcher; nothing is opened before Run.
func New(options Options) (*Dispatcher, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("configure dispatcher: %w", err)
	}
	return &Dispatcher{options: options}, nil
}

// Submit accepts the next event of the stream. It blocks while the bounds are
// reached, until ctx ends (then its error is the cause) or the dispatcher does
// ([ErrClosed], with what ended it). The events of an aggregate must be submitted
// in order, so by one goroutine at a time.
func (d *Dispatcher) Submit(ctx context.Context, item Item) error { panic("pending") }

// Run publishes until ctx ends, the dispatcher is drained (then it returns nil),
// or a fault ends the term. Events that are not acknowledged by then are dropped:
// the next term reads them again, from its resume token. When Run returns, no
// send is under way and Acked is called no more.
func (d *Dispatcher) Run(ctx context.Context) error { panic("pending") }

// Drain accepts no more events and waits until the accepted ones are
// acknowledged; Run then returns nil. Where ctx ends first, its cause is the
// error, the rest stays in flight, and the caller ends Run.
func (d *Dispatcher) Drain(ctx context.Context) error { panic("pending") }

// Inflight is what was submitted and is not acknowledged.
func (d *Dispatcher) Inflight() (events int, bytes int64) { panic("pending") }
