package verify

// Terms splits what a topic accepted, in the broker's order, into what belongs to
// the term of its time and what is late: accepted after a message of a later term,
// one with a higher epoch. Where nothing is late, no two terms overlapped.
//
// A late message comes from a publisher that did not know yet that its term was
// over. It does no harm where [Topic] has nothing to say about the current ones
// alone: its successor published the same, in order, and needed no help.
func Terms(accepted []Accepted) (current, late []Accepted) {
	var term int64
	for _, m := range accepted {
		if m.Epoch < term {
			late = append(late, m)
			continue
		}
		term = m.Epoch
		current = append(current, m)
	}
	return current, late
}
