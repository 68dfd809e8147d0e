package command

import (
	"maps"
	"sync"
)

// counts are the numbers of commands per application and per database. hello and isMaster
// do not count, because drivers send them all the time. The zero value has counted none.
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

// Commands returns the number of commands, except hello and isMaster, from clients with
// this application name.
func (e *Engine) Commands(appName string) int {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	return e.counts.byName[appName]
}

// CommandsByDatabase returns the number of commands, except hello and isMaster, per
// database.
func (e *Engine) CommandsByDatabase() map[string]int {
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	return maps.Clone(e.counts.byDatabase)
}
