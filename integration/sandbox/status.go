package sandbox

import "time"

// Phase is where a run stands.
type Phase string

// The phases, in the order of a run.
const (
	PhaseStarting  Phase = "starting"
	PhaseRunning   Phase = "running"
	PhaseFailover  Phase = "failover"
	PhaseVerifying Phase = "verifying"
	PhaseDone      Phase = "done"
)

// Status is what a view shows of a run at one moment.
type Status struct {
	Phase   Phase
	Elapsed time.Duration
	// Leader is the name of the leading publisher, empty where none leads; Epoch is
	// its term's.
	Leader string
	Epoch  int64
	// Total counts the workload's events; Stored those in the event store,
	// Published those that the broker accepted at least once, Projected those that
	// the read models show.
	Total, Stored, Published, Projected int
	// ProjectedRate is the number of events projected in the last second.
	ProjectedRate int
	// Sessions counts those that the projectors hold now.
	Sessions int
	// DuplicatesDropped were dropped by the broker, DuplicatesMet by a projector.
	DuplicatesDropped, DuplicatesMet int
	// Processes counts the running services.
	Publishers, Projectors int
}

// Lag counts the events that are stored and not yet projected.
func (s Status) Lag() int { return max(0, s.Stored-s.Projected) }

// View shows a run to a person.
type View interface {
	// Show replaces what is shown of the run's state.
	Show(Status)
	// Note tells of a single happening.
	Note(text string)
	// Close ends the showing; nothing is shown after it.
	Close()
}
