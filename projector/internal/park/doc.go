// Package park keeps the list of parked aggregates: in which projection an aggregate
// does not go on, why, and how far its events have been acknowledged since. The markers
// are in the collection parked of the state database, one for each aggregate in each
// generation of a projection. The markers of one generation say nothing about another: an
// event can fail under a new definition and not under the old one, or the other way round.
// A process claims markers of the generations that it serves.
//
//	              Park, permanent            Discard
//	(no marker) ──────────────────▶ parked ◀───────────▶ discarded
//	     │                          │ ▲ ▲ │               │
//	     │                  Advance └─┘ │ │ Retry         │ Retry
//	     │ Park, resumes                │ ▼               │
//	     └──────────────────▶ parked until it resumes ◀───┘
//	                          │ ▲  Claim, Postpone
//	                  Advance └─┘        └──────▶ (no marker)
//	                                      Finish: the read model has reached the head
//
// # Reasons that pass
//
// Some reasons are transient: an event is missing, or a store does not answer. The marker
// then has the time of its next attempt and all data that a replay needs. Package resume
// claims it, replays the aggregate and deletes it.
//
// # Permanent reasons
//
// An operator corrects what made the event fail, and asks for a retry. Retry gives the
// marker a time of its next attempt, so that package resume claims it like the others. If
// the event fails again, Park makes the marker permanent again. A retry cannot storm: a
// claim allows one attempt at a time, the attempts of one request are spread over time,
// and the waits between requested attempts at one event double.
//
// # Discarding
//
// An operator can accept that an aggregate stays behind. Discard keeps the marker, with who
// and why: without it, the aggregate would be parked again at its next event, or, if
// event ids only increase, the next event would be applied over the missing ones. So the
// read model stays at its watermark, later events are acknowledged and wait in the event
// store, and a retry takes the aggregate up with nothing lost. A discarded marker is not
// counted as parked. A decision holds for its event: if the aggregate is parked at another
// event later, the marker is no longer discarded.
//
// # No cache
//
// The list is read from MongoDB each time, at majority read concern. A stale "parked"
// would acknowledge an event of an aggregate that is to go on. A stale "not parked"
// would, where event ids only increase, apply an event over the one that failed. The
// projections ask only if it matters: before they treat a gap as one, and always
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
