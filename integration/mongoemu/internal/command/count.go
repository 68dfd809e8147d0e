package command

import "sync"

// counts are how many commands each application has sent, hello and its
// forerunners apart: a driver sends those by itself all the time. The zero value has
// counted none.
type counts struct {
	mu     sync.Mutex
	byName map[string]int
}

func (c *counts) add(r *Request) {
	switch r.Name {
	case "hello", "isMaster", "ismaster":
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName == nil {
		c.byName = make(map[string]int)
	}
	c.byName[r.conn.AppName]++
}

// Commands is how many commands clients of that application name have sent, other
// than hello.
func (e *Engine) Commands(appName string) int {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	return e.counts.byName[appName]
}
