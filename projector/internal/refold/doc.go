// Package refold folds read models from the event store, beside the live stream: the
// workers of the job kinds build and sweep. A build folds every aggregate of a range of
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
package refold
