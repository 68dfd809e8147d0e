// Package park keeps the list of parked aggregates: in which projection an aggregate
// does not go on, why, and how far its events have been acknowledged since. The markers
// are in the collection parked of the state database, one for each aggregate in each
// generation of a projection. The markers of one generation say nothing about another: an
// event can fail under a new definition and not under the old one, or the other way round.
// A process claims markers of the generations that it serves.
//
//	              Park, permanent           deleted by an operator
//	(no marker) ──────────────────▶ parked ───────────────────────▶ (no marker)
//	     │                          │ ▲ ▲
//	     │                  Advance └─┘ │ Park, permanent
//	     │ Park, resumes                │
//	     └──────────────────▶ parked until it resumes ────────────▶ (no marker)
//	                          │ ▲  Claim, Postpone       Finish: the read model has
//	                  Advance └─┘                        reached the head
//
// # Reasons that pass
//
// Some reasons are transient: an event is missing, or a store does not answer. The marker
// then has the time of its next attempt and all data that a replay needs. Package resume
// claims it, replays the aggregate and deletes it.
//
// # Permanent reasons
//
// There is no command for these. An operator corrects what made the event fail, rolls
// that out, and deletes the marker. Where event ids have no holes that is all: the
// aggregate's next event finds a gap, and the missing events are read from the event
// store. Until that event comes, the read model stays behind. Where ids only increase,
// no gap shows what is missing: the aggregate's read model and its document in
// watermarks have to be deleted too, and all of its events sent again.
//
// # No cache
//
// The list is read from MongoDB each time, at majority read concern. A stale "parked"
// would acknowledge an event of an aggregate that is to go on. A stale "not parked"
// would, where event ids only increase, apply an event over the one that failed. The
// projections ask only where it matters: before they treat a gap as one, and always
// where ids only increase. A permanent marker of an event that the read model has, for
// it passed when it came again, keeps nothing back where event ids have no holes.
//
// # Advance confirms
//
// The event of a parked aggregate is acknowledged only after the marker's head has
// risen to it: Advance is [ErrNotParked] if the marker is gone. Finish deletes a marker
// only if its head is not above the read model's watermark, and the server does both in
// one operation. If an event arrives while its marker is being deleted, there are two
// cases. Either it was acknowledged before, and the marker stays; or its session finds no
// marker, and applies it.
package park
