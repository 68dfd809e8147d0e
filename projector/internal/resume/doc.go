// Package resume takes up parked aggregates again whose reason passes by itself: an
// event that was missing, a store that did not answer. Every process runs a
// [Resumer]. It claims one marker after the other, as many at a time as it has
// workers, and replays the aggregate from the event store.
//
//	            due          caught up with the head
//	marker ──────────▶ claimed ──────────────────────▶ deleted
//	   ▲                │  │ ▲
//	   │   stuck again  │  │ │ a page of events, or the head has risen
//	   └────────────────┘  └─┘
//	     due later
//
// # No event is lost between a session and a resumer
//
// While an aggregate is parked, its session acknowledges an event only after it has
// raised the marker's head to that event, which fails if there is no marker. The
// resumer deletes the marker only if its head is not above the read model's watermark,
// in one operation. So either the head rises first, and the resumer reads on, or the
// marker goes first, and the session looks again and applies the event itself.
//
// # One at a time
//
// A claim is a lease in the marker, taken by one atomic update. A process that stops
// gives its claims back, one that dies loses them when they run out. Two processes
// that resume the same aggregate all the same write under the same guards as anyone
// else: one of them finds its write stale.
//
// An aggregate that is stuck again is due later, after waits that double. So many
// aggregates that lack an event cost little, and none is forgotten.
package resume
