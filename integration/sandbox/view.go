package sandbox

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// lineEvery is the interval of the lines of a view.
const lineEvery = time.Second

// View shows a run to a person: it prints one line per second.
type View struct {
	out io.Writer

	mu      sync.Mutex
	last    Status
	printed bool
}

// NewView makes a view that writes to out.
func NewView(out io.Writer) *View {
	return &View{out: out}
}

// Show writes a line if a second has passed or the phase has changed.
func (v *View) Show(s Status) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.printed && s.Phase == v.last.Phase && s.Elapsed-v.last.Elapsed < lineEvery {
		return
	}
	v.last, v.printed = s, true
	leader := s.Leader
	if leader == "" {
		leader = "none"
	}
	fmt.Fprintf(v.out, "%6s  %-10s leader=%s epoch=%d stored=%d/%d published=%d projected=%d lag=%d rate=%d/s sessions=%d duplicates=%d+%d\n",
		s.Elapsed.Truncate(100*time.Millisecond), s.Phase, leader, s.Epoch, s.Stored, s.Total, s.Published,
		s.Projected, s.Lag(), s.ProjectedRate, s.Sessions, s.DuplicatesDropped, s.DuplicatesMet)
	if s.Phase != phaseRebuilding {
		return
	}
	for _, r := range s.Rebuilds {
		generation := r.LiveGeneration()
		if r.Building != nil {
			generation = r.Building.Generation
		}
		fmt.Fprintf(v.out, "        %s generation=%d state=%q reads=%d empty=%d mixed=%d\n", r.Name, generation, r.State, r.Reads.Total, r.Reads.Empty, r.Reads.Mixed)
	}
}

// Note prints the text on a line of its own.
func (v *View) Note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.out, "        %s\n", text)
}
