package fault

import (
	"slices"
	"sync"
	"time"
)

// Command orders commands to fail, as the server's failCommand does.
type Command struct {
	// Commands are the names of the commands that fail; empty for all but hello.
	Commands []string `json:"commands,omitempty"`
	// Code is the error's code; 0 for no error, where only Block, CloseConnection
	// or WriteConcernCode is wanted.
	Code int32 `json:"code,omitempty"`
	// Message is the error's message; empty for one that names the fault.
	Message string `json:"message,omitempty"`
	// Labels replace the labels that the server would give; nil leaves those, an
	// empty list gives none.
	Labels []string `json:"labels,omitzero"`
	// Times is how often the fault happens; 0 once, negative for ever.
	Times int `json:"times,omitempty"`
	// Skip is how many matching commands pass before the first that fails.
	Skip int `json:"skip,omitempty"`
	// CloseConnection drops the connection instead of answering.
	CloseConnection bool `json:"closeConnection,omitempty"`
	// AfterExecution lets the command do its work first, so that only the answer
	// is lost: with CloseConnection or Code.
	AfterExecution bool `json:"afterExecution,omitempty"`
	// WriteConcernCode adds a write concern error of this code to the answer of a
	// write that is done; 0 for none.
	WriteConcernCode int32 `json:"writeConcernCode,omitempty"`
	// Block delays the command before it is run.
	Block time.Duration `json:"block,omitempty"`
	// Hold delays the command before it is run until [Set.Clear]: it is carried out then,
	// whether or not its client is still there.
	Hold bool `json:"hold,omitempty"`
	// Collection limits the fault to commands on one collection, in any database; empty for
	// all.
	Collection string `json:"collection,omitempty"`
	// AppName limits the fault to connections of one application name; empty for
	// all.
	AppName string `json:"appName,omitempty"`
	// failPoint marks the fault of configureFailPoint, of which there is one.
	failPoint bool
	// cleared is closed by the Clear after the fault was taken.
	cleared chan struct{}
}

// Cleared is closed when the faults in force at the time of Take have been cleared.
func (c *Command) Cleared() <-chan struct{} { return c.cleared }

// Set is the faults in force. The zero Set has none.
type Set struct {
	mu        sync.Mutex
	commands  []*Command
	documents []Document
	latency   time.Duration
	// cleared is what Clear closes; nil if no fault was taken since.
	cleared chan struct{}
}

// Add puts a fault in force.
func (s *Set) Add(c Command) {
	if c.Times == 0 {
		c.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = append(s.commands, &c)
}

// SetFailPoint puts a fault in force in place of the one that it was last called with;
// nil only removes that one.
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

// Clear removes all faults and the latency, and lets the commands that are held go on.
func (s *Set) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cleared != nil {
		close(s.cleared)
		s.cleared = nil
	}
	s.commands, s.documents, s.latency = nil, nil, 0
}

// SetLatency delays every command from now on; 0 ends it.
func (s *Set) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = d
}

// Latency is the delay of every command.
func (s *Set) Latency() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latency
}

// Take gives the fault that a command meets, nil for none, and counts it.
// collection is the one that the command names, if it does.
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

// Pending is the number of faults still in force.
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
