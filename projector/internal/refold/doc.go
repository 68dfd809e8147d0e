// Package refold folds read models from the event store, beside the live stream: the
// workers of the job kinds build and sweep. A build folds every aggregate of a range of
// the event store into one generation of a projection. A sweep compares the last event
// of each aggregate with its watermark, and folds what is behind. It also removes documents
// of older generations.
//
//	              pages            whole histories          answers, in order
//	event store ────────▶ fold ─────────────────────▶ write ───────────────▶ save position
//	 read ahead           │ from nothing, one write   │ two groups at once
//	                      │ for each aggregate        ▼
//	                      │                     not applied: watermarks
//	                      ▼                           │ the watermark has the last event: done
//	            failed, has a hole, begins            ▼
//	            later than 1 ──────────────▶ follow: from the watermark, page by page
//	                                                  │
//	                                                  ▼ cannot go on: park, in this generation
//
// # Beside the live stream
//
// Every write is guarded by the watermark that its fold started from, like a live write.
// A history is folded from nothing and inserted with its last event as the watermark. If
// a live write, or another worker, was first, the insert is stale. The aggregate then
// goes on from the watermark that is stored. So nothing is skipped and nothing applied
// twice, whoever comes first, and any part of a range can be done again.
//
// # Documents of older generations
//
// A projector that was stopped in the middle of an insert can create a document of its old
// generation after the promotion of a new one, if the new one has no document of the
// aggregate. Readers see that document. The next write of the aggregate removes it, but an
// aggregate without a later event has none: its events have deleted it, or are not of the
// projection, or have parked it. So a sweep looks at the generation of each document as
// well as at the watermark, and removes exactly that document after the grace.
//
// # What is never done
//
// Nothing is deleted because the event store lacks it. A history that does not begin at
// event 1 is not folded, unless the read model already has the events before it: the
// aggregate is parked with the reason history. An event that breaks the contract is a
// hole in its aggregate's history: the aggregate is parked as missing before it, as it
// is when the live stream meets it. In an increasing sequence ids may begin anywhere and
// have holes, and such an event is passed over, as the stream never brings it either.
//
// # Memory
//
// A range holds some pages of events, and the folded documents of three groups of
// histories (4 MiB of events each, or one larger history). A long history is folded page
// by page: only its document is kept.
package refold
