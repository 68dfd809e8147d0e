// Package resume continues parked aggregates whose reason is transient: an event that was
// missing, or a store that did not answer. Every process runs a [Resumer]. Each of its
// workers claims a marker and replays the aggregate from the event store.
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
// in one operation. So either the head rises first, and the resumer continues, or the
// marker is deleted first, and the session finds no marker and applies the event itself.
//
// # One at a time
//
// A claim is a lease in the marker, taken by one atomic update. A process that stops
// returns its claims, and the claims of a process that dies expire. If two processes
// nevertheless resume the same aggregate, both write with the same guards as every other
// writer, so the write of one of them is stale.
//
// If an aggregate is stuck again, its next attempt is due later, after waits that double.
// So many aggregates that lack an event cause little load, and none is forgotten. A read model
// that conflicts with another one on a unique value is retried as unavailable, because the
// other one may lack the event that releases the value. It is parked as rejected only after
// several attempts.
package resume
