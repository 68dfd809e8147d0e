package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// closeTimeout bounds the end of a connection.
const closeTimeout = time.Second

// errSlow is the cause of work on the queue that takes too long.
var errSlow = errors.New("the work on the dead-letter queue has taken too long")

// connection is a connection to the queue that is kept between uses. One goroutine uses
// it.
type connection struct {
	dial func() (Queue, error)
	log  zerolog.Logger
	// queue is nil if there is no connection.
	queue Queue
}

// use calls do with the connection that is there or a new one. The broker closes
// connections and links that are idle: if the one that was there is lost, do is called
// again with a new one. So do begins from the start each time.
func (c *connection) use(ctx context.Context, do func(Queue) error) error {
	kept := c.queue != nil
	err := c.once(do)
	if kept && sbus.Classify(err) == sbus.ClassConnectionLost {
		c.hangUp()
		err = c.once(do)
	}
	if err == nil {
		return nil
	}
	c.hangUp()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

func (c *connection) once(do func(Queue) error) error {
	if c.queue == nil {
		queue, err := c.dial()
		if err != nil {
			return fmt.Errorf("open a connection: %w", err)
		}
		c.queue = queue
	}
	return do(c.queue)
}

// hangUp closes the connection, if there is one.
func (c *connection) hangUp() {
	if c.queue == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.queue.Close(ctx); err != nil {
		c.log.Debug().Err(err).Msg("connection not closed cleanly")
	}
	c.queue = nil
}
