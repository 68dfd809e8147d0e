// Package park keeps the list of parked aggregates: where a projection could not
// go on with an aggregate, why, and how far the aggregate has come since. The
// markers stand in the collection parked of the state, one for each projection and
// aggregate, until a retry has replayed the aggregate from the event store.
//
//	              Park                      retry, with head unchanged
//	(no marker) ───────▶ parked {eventId} ────────────────────────────▶ (no marker)
//	                       │        ▲
//	                       └────────┘ Advance: head moves up
//
// # No cache
//
// What is parked is read from MongoDB each time, at majority read concern. A stale
// "parked" would acknowledge an event that nobody will ever replay. A stale "not
// parked" would, where event ids only increase, apply an event over the one that
// failed. The projections ask only where it matters: before they call a gap a gap,
// and always where ids only increase.
//
// # Advance confirms
//
// The event of a parked aggregate is acknowledged only when its id stands in the
// marker: Advance moves head in the marker that is there, and says [ErrNotParked]
// where it is gone. A retry deletes a marker only at the head that it has
// replayed. So of the two, whichever is second sees the other.
package park
