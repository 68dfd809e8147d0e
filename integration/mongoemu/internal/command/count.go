package command

import (
	"maps"
	"sync"
)

// counts are how many commands each application has sent, and how many each database has
// received. hello and its forerunners do not count: a driver sends those by itself all the
// time. The zero value has counted none.
type counts struct {
	mu         sync.Mutex
	byName     map[string]int
	byDatabase map[string]int
}

func (c *counts) add(r *Request) {
	switch r.Name {
	case "hello", "isMaster", "ismaster":
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName == nil {
		c.byName, c.byDatabase = make(map[string]int), make(map[string]int)
	}
	c.byName[r.conn.AppName]++
	c.byDatabase[r.DB]++
}

// Commands is how many commands clients of that application name have sent, other
// than hello.
func (e *Engine) Commands(appName string) int {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	return e.counts.byName[appName]
}

// CommandsByDatabase is how many commands each database has received, other than hello.
func (e *Engine) CommandsByDatabase() map[string]int {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	return maps.Clone(e.counts.byDatabase)
}
