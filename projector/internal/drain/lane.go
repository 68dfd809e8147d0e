package drain

import (
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// lane is one aggregate in a session: its distinct events, ascending.
type lane struct {
	key        string
	deliveries []*Delivery
	// due is when a waiting lane is tried again; zero while it does not wait.
	due time.Time
	// attempts counts consecutive failures.
	attempts int
	// maxLanes bounds how many lanes may share a call with this one; 0 means no bound.
	maxLanes int
	// missing is the event that the lane lacks since gapSince, which is zero if the lane
	// has no gap.
	missing  int64
	gapSince time.Time
	// givenUp says that stores have failed for the lane for too long.
	givenUp bool
	// overflows says that the lane may forget deliveries to leave room for others. tried says
	// that this session has repaired its gap in vain, or that a store has failed for it here.
	overflows, tried bool
	// troubled says that its load counts for the lanes in trouble.
	troubled bool
	// load is the load of its deliveries.
	load load
}

func (l *lane) waiting() bool { return !l.due.IsZero() }

func (l *lane) hasGap() bool { return !l.gapSince.IsZero() }

// head is the first event that the lane holds.
func (l *lane) head() int64 { return l.deliveries[0].Event.EventID }

// load is the number and the size of messages: of deliveries and of their duplicates.
type load struct{ count, bytes int }

// weigh returns the load of a delivery.
func weigh(d *Delivery) load {
	w := load{1, d.size}
	for _, duplicate := range d.duplicates {
		w.add(weigh(duplicate))
	}
	return w
}

func (w *load) add(more load) { w.count, w.bytes = w.count+more.count, w.bytes+more.bytes }
func (w *load) sub(less load) { w.count, w.bytes = w.count-less.count, w.bytes-less.bytes }
func (w load) exceeds(limit load) bool {
	return w.count > limit.count || w.bytes > limit.bytes
}
func (w load) none() bool { return w.count <= 0 || w.bytes <= 0 }

// kind is what the lanes of a call have in common. Lanes in trouble and healthy lanes have
// separate calls, because a lane in trouble could delay healthy ones.
type kind uint8

const (
	// fresh lanes have not failed.
	fresh kind = iota
	// retrying lanes have failed because of a store.
	retrying
	// repairing lanes have a gap that is older than the hold.
	repairing
	// givingUp lanes have failed or have had a gap for too long.
	givingUp
)

// attempts are the attempts for each kind.
var attempts = [...]model.Attempt{fresh: model.Hold, retrying: model.Hold, repairing: model.Repair, givingUp: model.GiveUp}

func (s *lanes) kind(l *lane, now time.Time) kind {
	switch {
	case l.hasGap() && l.attempts > 0 && now.Sub(l.gapSince) >= s.gapTimeout, l.givenUp:
		return givingUp
	case l.hasGap() && now.Sub(l.gapSince) >= s.hold:
		return repairing
	case !l.hasGap() && l.attempts > 0:
		return retrying
	}
	return fresh
}
