// Package history walks over the event store, beside the live stream. Its workers do the jobs of
// all kinds, and its [Resumer] continues parked aggregates. A build folds every aggregate of a range of
// the event store into one generation of a projection. A sweep compares the last event
// of each aggregate with its watermark, and folds what is behind. It also removes documents
// of older generations.
//
//		              pages            whole histories          answers, in order
//		event store ────────▶ fold ─────────────────────▶ write ───────────────▶ save position
//		 read ahead           │ from nothing, one write   │ two groups at once
//		                      │ for each aggregate        ▼
//		                      │                     not applied: watermarks
//		                      ▼                           │ the watermark has the last event: done
//		            failed, has a hole, begins            ▼
//		            later than 1 ──────────────▶ follow: from the watermark, page by page
//		                                                  │
//		                                                  ▼ cannot go on: park, in this generation
//		                                                    (what a store or another document
//	                                                   prevents resumes by itself)
//
// # Beside the live stream
//
// Every write is guarded by the watermark that its fold started from, like a live write. A
// history is folded from its first event and inserted with its last event as the watermark.
// If a live write or another worker was first, the insert is stale, and the aggregate
// continues from the stored watermark. So no event is skipped or applied twice, whichever
// writer is first, and any part of a range can be repeated.
//
// # Beside a generation that is being built
//
// A generation that no longer defers can be promoted at any time. If the topic has not
// delivered an event, a sweep of the live generation would show readers an event that the
// promotion takes away again. So such a sweep folds nothing; the generation that is being built
// has a sweep and a verification of its own.
//
// # Documents of older generations
//
// A projector that was stopped in the middle of an insert can create a document of its old
// generation after the promotion of a new one, if the new one has no document of the
// aggregate. Readers see that document until the next write of the aggregate removes it. An
// aggregate without further writes keeps it: its events have deleted the read model, or are
// not of the projection, or have parked it. So a sweep also compares the generation of each
// document, and removes exactly such a document after the grace.
//
// # What is never done
//
// Nothing is deleted because the event store lacks it. A history that does not begin at
// event 1 is not folded, unless the read model already has the events before it: the
// aggregate is parked with the reason history, and resumes when event 1 is there. An event
// that breaks the contract is a hole in its aggregate's history. The aggregate is parked as
// missing before the hole, as by the live stream.
//
// # An aggregate in trouble
//
// No range waits for one aggregate. If a document cannot be loaded or written, or is of a
// newer generation, while the store can be reached, its aggregate is parked as unavailable,
// with the error, and the range goes on. It resumes by itself. A failed request for many
// watermarks is repeated for parts of them, to find the document that makes it fail.
// A build ends with [ErrMostlyFailing] if it parks too many aggregates whose events cannot
// be folded. A sweep goes on, because it must heal the others.
//
// A sweep folds a parked aggregate up to the event at which it is parked, because a read model
// that was restored from a backup can lack events before that one. The sweep leaves an
// aggregate alone that resumes by itself.
//
// # Memory
//
// A range holds some pages of events, and the folded documents of three groups of
// histories (4 MiB of events each, or one larger history). A long history is folded page
// by page: only its document is kept.
//
// # Verification: why it is exact
//
// A read model with the watermark w must equal the fold of the events 1 to w of its
// aggregate. Those events never change. So verification can read a read model at any
// moment: the watermark in the same document says which events it must contain. No writer
// is paused, and no finding about content depends on timing.
//
// An aggregate without a document has a side watermark: as of that event, the aggregate
// has no document. This also depends only on events that never change.
//
// Only presence and lag depend on time. An aggregate whose watermark is lower than its
// last event is checked again. It becomes a finding only if it has not caught up after
// the grace period and is not parked. A parked aggregate must have caught up to the event
// that parked it:
//
//	        content wrong                                     finding
//	look ──────────────────────────────────────────────────────▶ ●
//	  │     content right, watermark == head
//	  ├─────────────────────────────────────▶ right
//	  │     watermark < head                      caught up
//	  └───────────▶ late ── look again ─────────────────────────▶ right
//	                 │  ▲        │ parked                          (information)
//	                 │  └────────┤ grace not over
//	                 │           │ grace over
//	                 └───────────┴─────────────────────────────▶ behind, missing, …
//
// # Both directions
//
// One pass reads the event store in the order of the aggregates and checks the read model
// of each. Two more passes look for documents and side watermarks whose aggregates are
// not in the event store. They are reported and never deleted, because the event store
// may have been restored from an old backup.
//
// # Counts
//
// Each finding counts once. So an aggregate that has a document and a side watermark belongs
// to the pass over the documents, and a document that a view lacks belongs to the first part
// that contributes to it. The counts of a range are saved with its position, and a range that is
// done again from its beginning counts from zero. If a process dies after a repair and before
// the next save, its successor does not find that read model. The finding is stored, so commands
// print the counts of the stored findings as long as a job stores all of them.
//
// # Comparison
//
// Values are compared with their BSON types. The order of fields is ignored, because it
// depends on the batches in which events arrived. lastUpdatedAt is ignored. A number with
// the right value and a different type is a finding of its own kind (type only).
//
// # Repair
//
// A repair folds the aggregate from the event store again and writes with the same guards
// as every writer. A document with wrong content is first set aside, so that no writer
// continues from it: see readmodel.Repairer. If a live writer replaces the document before
// the repair does, the repair continues from the new document and folds no event twice.
// After a repair the aggregate is checked again, and the finding records whether its read
// model is right now.
//
// Nothing is repaired in a live generation that another one can replace at any time: readers would
// see the repair disappear if the other one lacks it.
//
// # How it is tested
//
// In a property test live writers work between every two steps of a verification, and the
// verification reports no finding.
//
// # Parked aggregates
//
// A [Resumer] continues parked aggregates whose reason is transient: an event that was missing, or a store that did not answer. Every process runs a [Resumer]. Each of its
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
package history
