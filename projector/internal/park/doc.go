// Package park keeps the list of parked aggregates. A marker records the projection in
// which an aggregate cannot continue, the reason, and up to which event its events have
// been acknowledged since. The messages of the event that failed and of all later events are
// completed: the events wait in the event store. The markers are in the collection parked of the state
// database, one for each aggregate in each generation of a projection. Generations have
// separate markers, because an event can fail under a new definition and not under the
// old one, or the other way round. A process claims only markers of the generations that
// it serves.
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
// Some reasons are transient: an event is missing, another document has a unique value, or a
// store does not answer for the aggregate. The marker then has the time of its next attempt and
// all data that a replay needs. Package history claims the marker, replays the aggregate and
// deletes the marker. The waits between attempts double, from 200 ms to a minute, so that an
// event that is late by a moment costs one replay. The reason history is transient too: the
// first events are lost. Mostly it ends only when an operator acts. There can be as many such
// markers as aggregates, so their attempts are up to an hour apart.
//
// # Dead processes
//
// The claim of a process that dies ends with its lease. If a claim expires while its process still
// works, two processes can replay the same aggregate for a while. The watermark guards their
// writes, and only the process with the claim changes the marker.
//
// # Permanent reasons
//
// An operator corrects the reason of the failure, and requests a retry. Retry gives the
// marker a time of its next attempt, so that package history claims it like the others. If
// the event fails again, Park makes the marker permanent again. Retries cannot overload
// the stores: a claim allows one attempt at a time, the attempts of one request are
// spread over time, and the waits between requested attempts at one event double.
//
// # Discarding
//
// An operator can accept that an aggregate stays behind. Discard keeps the marker and adds who
// discarded it and why. Without the marker, the aggregate would be parked again at its next
// event. With the marker, the read model stays at its watermark, later events are acknowledged
// and remain in the event store, and a retry resumes the aggregate without a loss. A discarded
// marker is not counted as parked. A discard applies to one event: if the aggregate is parked at
// another event later, the marker is no longer discarded.
//
// # No cache
//
// The list is read from MongoDB each time, at majority read concern. With a stale "parked", an
// event of a resumed aggregate would be acknowledged without being applied. The engine reads the
// list only before it treats missing events as a gap. A permanent marker has no effect once the
// read model has the marker's event, because another delivery could apply it.
//
// # Advance confirms
//
// The event of a parked aggregate is acknowledged only after the marker's head has risen
// to it: Advance returns [ErrNotParked] if the marker is gone. Finish deletes a marker
// only if its head is not above the read model's watermark, and the server does both in
// one operation. If an event arrives while its marker is being deleted, there are two
// cases. If Advance comes first, the marker stays. If Finish comes first, the session
// finds no marker and applies the event.
package park
