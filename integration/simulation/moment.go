package simulation

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// meet records the state in which a fault meets the pipeline. The caller calls end when the fault
// is over. The number of different states shows how much of the world histories have covered.
func (w *World) meet(f Fault) (end func()) {
	text := w.moment(f)
	w.mu.Lock()
	defer w.mu.Unlock()
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s, beside %d others", text, min(w.striking, 2))
	w.met[h.Sum64()] = true
	w.struck[f.Kind]++
	w.striking++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.striking--
	}
}

// moment describes the kind of a fault, and what each component is doing: how many processes
// run, what the leader reads from, the step of each build, and whether an aggregate is parked.
func (w *World) moment(f Fault) string {
	parts := []string{f.Kind, f.Server}
	for _, group := range [][]*process{w.publishers, w.projectors} {
		running := 0
		for _, p := range group {
			if p.name() != "" {
				running++
			}
		}
		parts = append(parts, fmt.Sprint(running))
	}
	switch saved := w.checkpoint(); {
	case w.history.leader() == "":
		parts = append(parts, "nobody leads")
	case saved.Scan != nil:
		parts = append(parts, "scan")
	case saved.Token != nil:
		parts = append(parts, "stream")
	}
	for _, entry := range w.state("projections") {
		if name := text(entry, "_id"); w.owns(name) {
			parts = append(parts, fmt.Sprintf("%s %v %s", strings.TrimPrefix(name, w.prefix), number(entry, "live", "generation") > 0, text(entry, "building", "state")))
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("parked %v", len(w.state("parked")) > 0)), ", ")
}
