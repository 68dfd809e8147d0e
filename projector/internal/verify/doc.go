// Package verify compares read models with the fold of their events, while events flow.
//
// # Why it is exact
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
package verify
