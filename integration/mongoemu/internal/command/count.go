package command

import (
	"maps"
	"sync"
)

// counts are the numbers of commands per database. hello and isMaster
// do not count, because drivers send them all the time. The zero value has counted none.
type counts struct {
	mu         sync.Mutex
	byDatabase map[string]int
}

func (c *counts) add(r *Request) {
	switch r.Name {
	case "hello", "isMaster", "ismaster":
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byDatabase == nil {
		c.byDatabase = make(map[string]int)
	}
	c.byDatabase[r.DB]++
}

// CommandsByDatabase returns the number of commands, except hello and isMaster, per
// database.
func (e *Engine) CommandsByDatabase() map[string]int {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	return maps.Clone(e.counts.byDatabase)
}
