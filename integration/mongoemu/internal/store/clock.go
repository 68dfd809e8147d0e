package store

import (
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Clock gives cluster times: seconds and a counter, only ever forward.
type Clock struct {
	now  func() time.Time
	mu   sync.Mutex
	last bson.Timestamp
}

func newClock(now func() time.Time) *Clock { return &Clock{now: now} }

// Next is a new time, after all before it.
func (c *Clock) Next() bson.Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := uint32(c.now().Unix()); t > c.last.T {
		c.last = bson.Timestamp{T: t, I: 1}
	} else {
		c.last.I++
	}
	return c.last
}

// Last is the newest time given or observed.
func (c *Clock) Last() bson.Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Observe moves the clock to a time that a client has seen elsewhere.
func (c *Clock) Observe(ts bson.Timestamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ts.After(c.last) {
		c.last = ts
	}
}
