// Package history walks over the event store, beside the live stream. [Workers] do the jobs of all
// kinds, [Scheduler] starts the periodic sweeps, and [Resumer] continues parked aggregates.
//
//	              whole histories          ┌─▶ fold ──▶ insert         a build
//	event store ────────────────▶ scan ────┤
//	     │                                 └─▶ judge ─▶ repair         a verification
//	     │ last event of each aggregate
//	     └──────────────▶ sweep ──▶ what is behind ─┐
//	                                                ├─▶ engine.CatchUp
//	parked list ────────▶ Resumer ──▶ what is due ──┘
//
// A build folds every aggregate of a range into one generation of a projection, with one write
// for each. A sweep compares the last event of each aggregate with its watermark, and folds what
// is behind. A verification compares the content of the read models with the fold of their events.
//
// # Beside the live stream
//
// Every write is guarded by the watermark that its fold started from, like a live write. A
// history is folded from its first event and inserted with its last event as the watermark.
// If a live write or another worker was first, the insert is stale, and the aggregate
// continues from the stored watermark. So no event is skipped or applied twice, whichever
// writer is first, and any part of a range can be repeated.
//
// A generation that no longer defers can be promoted at any time. If the topic has not
// delivered an event, a sweep or a repair of the live generation would show readers an event that
// the promotion takes away again. So the live generation is neither swept nor repaired then; the
// generation that is being built has a sweep and a verification of its own.
//
// # Documents of older generations
//
// A projector that was stopped in the middle of an insert can create a document of its old
// generation after the promotion of a new one, if the new one has no document of the
// aggregate. Readers see that document until the next write of the aggregate removes it. An
// aggregate without further writes keeps it. So a sweep also compares the generation of each
// document, and removes exactly such a document after the grace.
//
// # What is never done
//
// Nothing is deleted because the event store lacks it: the store may have been restored from an
// old backup. A history that begins neither at event 1 nor with a snapshot is not folded, unless the
// read model already has the events before it: the aggregate is parked with the reason history, and resumes
// when event 1 is there. An event that breaks the contract is a hole in its aggregate's history.
// The aggregate is parked as missing before the hole, as by the live stream.
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
// # Why a verification is exact
//
// A read model with the watermark w must equal the fold of the events 1 to w of its
// aggregate. Those events never change. So a verification can read a read model at any
// moment: the watermark in the same document says which events it must contain. No writer
// is paused, and no finding about content depends on timing. An aggregate without a document has
// a side watermark: as of that event, the aggregate has no document.
//
// If the history begins with a snapshot, the fold begins there, from nothing. A read model that
// lacks archived events cannot be compared: it is behind, and begins anew with the snapshot.
//
// Only presence and lag depend on time, and a hole if events may be archived. An aggregate whose watermark is lower than its
// last event is checked again. It becomes a finding only if it has not caught up after
// the grace period and is not parked. A parked aggregate must have caught up to the event
// that parked it. Values are compared with their BSON types. The order of fields is ignored,
// because it depends on the batches in which events arrived.
//
// Two more passes look for documents and side watermarks whose aggregates are not in the event
// store. Each finding counts once: an aggregate that has a document and a side watermark belongs
// to the pass over the documents. If a process dies after a repair and before the next save, its
// successor does not find that read model; so commands print the counts of the stored findings.
//
// # Repair
//
// A repair folds the aggregate again and writes with the same guards as every writer. A document
// with wrong content is first set aside, so that no writer continues from it: see
// readmodel.Repairer. If a live writer replaces the document before the repair does, the repair
// continues from the new document. Afterwards the aggregate is checked again, and the finding
// records whether its read model is right now.
//
// # Parked aggregates
//
// While an aggregate is parked, its session acknowledges an event only after it has
// raised the marker's head to that event, which fails if there is no marker. The
// resumer deletes the marker only if its head is not above the read model's watermark,
// in one operation. So either the head rises first, and the resumer continues, or the
// marker is deleted first, and the session finds no marker and applies the event itself.
// A claim is a lease in the marker. If two processes nevertheless resume the same aggregate, both
// write with the same guards, so the write of one of them is stale. The waits between attempts
// double, so many aggregates that lack an event cause little load, and none is forgotten.
//
// # Memory
//
// A range holds a few batches of whole histories (4 MiB of events each) and their folded
// documents. A history that does not fit into a batch is read alone, page by page: only its
// document is kept.
package history
