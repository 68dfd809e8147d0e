package sandbox

import (
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/verify"
)

// Phase is the present part of a run.
type Phase string

// The phases, in the order of a run.
const (
	PhaseStarting   Phase = "starting"
	PhaseRunning    Phase = "running"
	PhaseFailover   Phase = "failover"
	PhaseRebuilding Phase = "rebuilding"
	PhaseVerifying  Phase = "verifying"
	PhaseComparing  Phase = "comparing"
	PhaseDone       Phase = "done"
)

// Status is the state of a run that a view shows.
type Status struct {
	Phase   Phase
	Elapsed time.Duration
	// Leader is the name of the leading publisher, empty if none leads. Epoch is that of
	// its term.
	Leader string
	Epoch  int64
	// Total counts the workload's events; Stored those in the event store,
	// Published those that the broker accepted at least once, Projected those that
	// the read models show.
	Total, Stored, Published, Projected int
	// ProjectedRate is the number of events projected in the last second.
	ProjectedRate int
	// Sessions counts the sessions that the projectors hold.
	Sessions int
	// DuplicatesDropped counts those that the broker dropped, DuplicatesMet those that a
	// projector received.
	DuplicatesDropped, DuplicatesMet int
	// Processes counts the running services.
	Publishers, Projectors int
	// Pages are the status pages of the running services, by name. A service that is
	// replaced has another address.
	Pages []Page
	// Rebuild is nil before the second act.
	Rebuild *RebuildStatus
}

// Page is the status page of a running service.
type Page struct{ Service, URL string }

// statusPage is the address of a service's status page.
func statusPage(process *harness.Process) string { return "http://" + process.Admin + "/status" }

// RebuildStatus is the state of a rebuild, by the projector's commands, and what a reader
// of the collection has seen so far.
type RebuildStatus struct {
	Projection string
	// Live and Building are the numbers of the generations; 0 for none.
	Live, Building int64
	// State is live, or that of the building generation, and Reason what it waits for.
	State, Reason string
	// Job is the kind of the newest job of the new generation, empty for none. Done counts
	// its events so far, Total all of them, about.
	Job         string
	Done, Total int64
	Reads       verify.Reads
}

// Lag counts the events that are stored and not yet projected.
func (s Status) Lag() int { return max(0, s.Stored-s.Projected) }

// View shows a run to a person.
type View interface {
	// Show replaces what is shown of the run's state.
	Show(Status)
	// Note shows an event of the run.
	Note(text string)
	// Close ends the view. Nothing is shown after it.
	Close()
}
