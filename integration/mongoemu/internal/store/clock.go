package store

import (
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Clock returns cluster times, which consist of seconds and a counter. They never go
// back.
type Clock struct {
	now  func() time.Time
	mu   sync.Mutex
	last bson.Timestamp
}

func newClock(now func() time.Time) *Clock { return &Clock{now: now} }

// Next returns a new cluster time, greater than all earlier ones.
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

// Last returns the newest cluster time returned or observed.
func (c *Clock) Last() bson.Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Observe advances the clock to a cluster time from elsewhere, if it is newer.
func (c *Clock) Observe(ts bson.Timestamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ts.After(c.last) {
		c.last = ts
	}
}
