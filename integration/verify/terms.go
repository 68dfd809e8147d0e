package verify

// Terms splits the messages that a topic accepted, in the broker's order, into current and
// late ones. A message is late if a message of a later term, with a higher epoch, was
// accepted before it. If no message is late, no two terms overlapped.
//
// A late message comes from a publisher that did not know yet that its term was over. It
// does no harm if [Topic] has no findings for the current messages alone: the successor has
// then published the same events in order.
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
