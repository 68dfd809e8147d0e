// Package verify compares read models with the fold of their events, while events flow.
//
// # Why it is exact
//
// A read model that carries the watermark w must equal the fold of the events 1 to w of
// its aggregate. Those events never change. So the read model may be read at any moment,
// and whatever is written meanwhile, its own watermark says what it must equal. Nothing
// is paused, and a finding about the content is never a matter of timing.
//
// An aggregate without a document has a side watermark: there is no document as of that
// event. That too is a statement about events that never change.
//
// Only presence and lag depend on time. An aggregate whose watermark is lower than its
// last event is looked at again, and is a finding only if it has not caught up after the
// grace period and is not parked:
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
// One pass reads the events of the store in the order of the aggregates and looks at the
// read model of each. Two more look for documents and side watermarks of aggregates that
// the store does not have. What the store lacks is reported and never deleted: the store
// may have been restored from an old backup.
//
// # Comparison
//
// Values are compared with their BSON types. The order of fields does not count, because
// it depends on the batches in which events arrived. lastUpdatedAt does not count. A
// number of the right value and another type is reported apart (type only).
//
// # Repair
//
// A repair folds the aggregate from the event store again, under the guards of every
// writer. A document whose content is wrong is set aside first, so that no writer folds
// on from it: see readmodel.Repairer. After a repair the aggregate is looked at again,
// and the finding says whether it is right now.
package verify
