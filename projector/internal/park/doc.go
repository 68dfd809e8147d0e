// Package park keeps the list of parked aggregates: where a projection could not
// go on with an aggregate, why, and how far the aggregate has come since. The
// markers stand in the collection parked of the state, one for each projection and
// aggregate, until an operator deletes them.
//
//	              Park                      deleted by an operator
//	(no marker) ───────▶ parked {eventId} ────────────────────────▶ (no marker)
//	                       │        ▲
//	                       └────────┘ Advance: head moves up
//
// # Going on
//
// There is no command for it. An operator corrects what made the event fail, rolls
// that out, and deletes the marker. Where event ids have no holes that is all: the
// aggregate's next event finds a gap which nothing explains any more, and what is
// missing is read from the event store. Until that event comes, the read model stays
// behind. Where ids only increase, no gap shows what is missing: the aggregate's read
// model and its record in watermarks have to be deleted too, and all of its events
// sent again.
//
// # No cache
//
// What is parked is read from MongoDB each time, at majority read concern. A stale
// "parked" would acknowledge an event of an aggregate that is to go on. A stale "not
// parked" would, where event ids only increase, apply an event over the one that
// failed. The projections ask only where it matters: before they call a gap a gap,
// and always where ids only increase. A marker of an event that the read model has, for
// it passed when it came again, keeps nothing back where event ids have no holes.
//
// # Advance confirms
//
// The event of a parked aggregate is acknowledged only when its id stands in the
// marker: Advance moves head in the marker that is there, and says [ErrNotParked]
// where it is gone. So an event that meets the end of its marker has either been
// acknowledged before, and the aggregate's next one finds it missing, or it is looked
// at again and finds the gap itself.
package park
