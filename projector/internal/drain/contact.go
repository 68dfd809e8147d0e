package drain

import (
	"sync"
	"time"
)

// contact records whether the broker answers. The zero value is a broker that does. It is
// safe for concurrent use.
type contact struct {
	mu    sync.Mutex
	since time.Time
	err   error
}

// answered says that the broker has answered.
func (c *contact) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.err = time.Time{}, nil
}

// failed says that the broker has not answered, or has refused.
func (c *contact) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.since = time.Now()
	}
	c.err = err
}

// failing returns since when the broker has not answered, and the last error; nil if it
// answers.
func (c *contact) failing() (since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.err
}
