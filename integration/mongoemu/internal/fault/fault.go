package fault

import (
	"slices"
	"sync"
	"time"
)

// Command makes commands fail, as the server's failCommand does.
type Command struct {
	// Commands are the names of the commands that fail; if empty, all commands except
	// hello fail.
	Commands []string `json:"commands,omitempty"`
	// Code is the error code; 0 returns no error, which is useful with Block, Hold,
	// CloseConnection or WriteConcernCode alone.
	Code int32 `json:"code,omitempty"`
	// Message is the error message; if empty, a fixed message is used.
	Message string `json:"message,omitempty"`
	// Labels replace the error labels that the server would send. nil keeps the server's
	// labels; an empty list sends no labels.
	Labels []string `json:"labels,omitzero"`
	// Times is how often the fault happens; 0 means once, a negative number means always.
	Times int `json:"times,omitempty"`
	// Skip is how many matching commands pass before the first one fails.
	Skip int `json:"skip,omitempty"`
	// CloseConnection drops the connection instead of answering.
	CloseConnection bool `json:"closeConnection,omitempty"`
	// AfterExecution runs the command before the fault of CloseConnection or Code, so
	// that only the reply is lost.
	AfterExecution bool `json:"afterExecution,omitempty"`
	// WriteConcernCode adds a write concern error with this code to the reply of a
	// successful write; 0 adds none.
	WriteConcernCode int32 `json:"writeConcernCode,omitempty"`
	// Block delays the command before it runs.
	Block time.Duration `json:"block,omitempty"`
	// Hold delays the command until [Set.Clear]. A write then runs even if its client has
	// disconnected; a read does not.
	Hold bool `json:"hold,omitempty"`
	// Collection limits the fault to commands on one collection, in any database; empty
	// means all collections.
	Collection string `json:"collection,omitempty"`
	// AppName limits the fault to connections with this application name; empty means all
	// connections.
	AppName string `json:"appName,omitempty"`
	// failPoint marks the fault that configureFailPoint set. There is at most one.
	failPoint bool
	// cleared is closed by the first Clear after Take returned the fault.
	cleared chan struct{}
}

// Cleared returns a channel that is closed by the first Clear after Take returned the
// fault.
func (c *Command) Cleared() <-chan struct{} { return c.cleared }

// Set is the set of active faults. The zero Set is empty.
type Set struct {
	mu        sync.Mutex
	commands  []*Command
	documents []Document
	latency   time.Duration
	// cleared is the channel that the next Clear closes; nil if no fault was taken since
	// the last Clear.
	cleared chan struct{}
}

// Add adds a fault. It treats Times 0 as 1.
func (s *Set) Add(c Command) {
	if c.Times == 0 {
		c.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = append(s.commands, &c)
}

// SetFailPoint replaces the fault of the previous SetFailPoint call. nil only removes
// that fault.
func (s *Set) SetFailPoint(c *Command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = slices.DeleteFunc(s.commands, func(c *Command) bool { return c.failPoint })
	if c != nil {
		point := *c
		point.failPoint = true
		s.commands = append(s.commands, &point)
	}
}

// Clear removes all faults and the latency, and releases the commands that Hold delays.
func (s *Set) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cleared != nil {
		close(s.cleared)
		s.cleared = nil
	}
	s.commands, s.documents, s.latency = nil, nil, 0
}

// SetLatency delays every following command; 0 removes the delay.
func (s *Set) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = d
}

// Latency returns the delay of every command.
func (s *Set) Latency() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latency
}

// Take returns the first fault that applies to a command, or nil, and counts down its
// Skip and Times. collection is empty if the command names none.
func (s *Set) Take(command, collection, appName string) *Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.commands {
		if !c.matches(command, collection, appName) {
			continue
		}
		if c.Skip > 0 {
			c.Skip--
			continue
		}
		if s.cleared == nil {
			s.cleared = make(chan struct{})
		}
		c.cleared = s.cleared
		taken := *c
		if c.Times > 0 {
			if c.Times--; c.Times == 0 {
				s.commands = slices.Delete(s.commands, i, i+1)
			}
		}
		return &taken
	}
	return nil
}

// Pending returns the number of command faults that are still active. Document faults do
// not count.
func (s *Set) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.commands)
}

func (c *Command) matches(command, collection, appName string) bool {
	if c.AppName != "" && c.AppName != appName || c.Collection != "" && c.Collection != collection {
		return false
	}
	if len(c.Commands) == 0 {
		return command != "hello" && command != "isMaster" && command != "ismaster"
	}
	return slices.Contains(c.Commands, command)
}
