package drain

import "time"

// lane is what a session holds of one aggregate: distinct events, ascending.
type lane struct {
	key        string
	deliveries []*Delivery
	// busy is whether a call has some of its deliveries.
	busy bool
	// due is when a waiting lane is tried again; zero while it does not wait.
	due time.Time
	// attempts counts what has failed since something of the lane was done.
	attempts int
	// company bounds the lanes that share a call with this one; 0 is no bound.
	company int
	// missing is the event that the lane lacks since gapSince, which is zero if the lane
	// has no gap.
	missing  int64
	gapSince time.Time
	// hopeless is whether stores have failed for the lane for too long.
	hopeless bool
	// overflows is whether the lane may forget deliveries to leave room for others.
	overflows bool
	// troubled is whether its load is part of what lanes in trouble hold.
	troubled bool
	// load is what its deliveries weigh.
	load load
}

func (l *lane) waiting() bool { return !l.due.IsZero() }

func (l *lane) hasGap() bool { return !l.gapSince.IsZero() }

// head is the first event that the lane holds.
func (l *lane) head() int64 { return l.deliveries[0].Event.EventID }

// load is what messages weigh: those of deliveries and of their duplicates.
type load struct{ count, bytes int }

// weigh gives the load of a delivery.
func weigh(d *Delivery) load {
	w := load{1, d.size}
	for _, duplicate := range d.duplicates {
		w.add(weigh(duplicate))
	}
	return w
}

func (w *load) add(more load) { w.count, w.bytes = w.count+more.count, w.bytes+more.bytes }
func (w *load) sub(less load) { w.count, w.bytes = w.count-less.count, w.bytes-less.bytes }
func (w load) exceeds(most load) bool {
	return w.count > most.count || w.bytes > most.bytes
}
func (w load) none() bool { return w.count <= 0 || w.bytes <= 0 }

// kind is what the lanes of a call have in common. A lane in trouble is not in a call
// with healthy ones: it could delay them.
type kind uint8

const (
	// fresh lanes have not failed.
	fresh kind = iota
	// retrying lanes have failed at a store.
	retrying
	// repairing lanes have a gap that has outlasted the hold.
	repairing
	// givingUp lanes have failed or have had a gap for too long.
	givingUp
)

// attempts are how far a call of each kind goes.
var attempts = [...]Attempt{fresh: Hold, retrying: Hold, repairing: Repair, givingUp: GiveUp}

func (s *lanes) kind(l *lane, now time.Time) kind {
	switch {
	case l.hasGap() && l.attempts > 0 && now.Sub(l.gapSince) >= s.gapTimeout, l.hopeless:
		return givingUp
	case l.hasGap() && now.Sub(l.gapSince) >= s.hold:
		return repairing
	case !l.hasGap() && l.attempts > 0:
		return retrying
	}
	return fresh
}
