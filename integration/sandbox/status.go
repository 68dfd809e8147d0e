package sandbox

import (
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/verify"
)

// Phase is a part of a run.
type Phase string

// The phases, in the order of a run.
const (
	phaseStarting   Phase = "starting"
	phaseRunning    Phase = "running"
	phaseFailover   Phase = "failover"
	phaseRebuilding Phase = "rebuilding"
	phaseVerifying  Phase = "verifying"
	phaseErasing    Phase = "erasing"
	phaseComparing  Phase = "comparing"
	phaseDone       Phase = "done"
)

// Status is the state of a run that a view shows.
type Status struct {
	Phase   Phase
	Elapsed time.Duration
	// Leader is the name of the leading publisher, empty if none leads. Epoch is the epoch
	// of its term.
	Leader string
	Epoch  int64
	// Total counts the workload's events. Stored are in the event store, Published were
	// accepted by the broker at least once, and Projected are shown by the read models.
	Total, Stored, Published, Projected int
	// ProjectedRate is the number of events projected in the last second.
	ProjectedRate int
	// Sessions counts the sessions that the projectors hold.
	Sessions int
	// DuplicatesDropped counts the duplicates that the broker dropped, DuplicatesMet those
	// that a projector received.
	DuplicatesDropped, DuplicatesMet int
	// Rebuilds is empty before the second act.
	Rebuilds []RebuildStatus
}

// statusPage is the line that names a service's status page.
func statusPage(process *harness.Process) string {
	return fmt.Sprintf("status page of %s: http://%s/status", process.Name, process.Admin)
}

// RebuildStatus is the state of a rebuild according to the projector's command, and the
// results of a reader of the collection so far.
type RebuildStatus struct {
	harness.ProjectionState
	Reads verify.Reads
}

// Lag counts the events that are stored and not yet projected.
func (s Status) Lag() int { return max(0, s.Stored-s.Projected) }
