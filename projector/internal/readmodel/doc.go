// Package readmodel reads and writes read models in MongoDB, in groups: what all
// sessions of a projector want at about the same time travels together.
//
// # Watermarks
//
// A read model document has the aggregate's id as _id, the id of its last event as
// lastEventId and the time of its last change as lastUpdatedAt. An aggregate
// without a document keeps its watermark in the collection watermarks, under
// {projection, aggregateId}: it says that there is no document as of that event.
// Where the document exists, it alone is the watermark.
//
// # Guards
//
// Whoever folds starts from a watermark, and what they write takes effect only if
// that still is the watermark. So of two that fold the same events, one is stale
// and looks again, and it does not matter which.
//
//	Update         update {_id, lastEventId: from}
//	Create         insert; E11000 on _id is stale
//	MoveWatermark  upsert of the side watermark, $max
//	Delete         the same, then delete {_id, lastEventId: from}
//	Erase          the same, then delete {_id, lastEventId: {$lte: to}}
//
// A delete raises the side watermark first. Should the process die in between, the
// document still stands with its own watermark, the event comes again, and the
// delete is repeated.
//
// The insert of a late writer could bring back what has been deleted. A projection
// that deletes therefore creates in a transaction that also writes to the side
// watermark, if that is still the one the fold started from. To read it would not be
// enough: a batch that creates and deletes a document leaves nothing for the insert
// to conflict with but that watermark.
//
// # What a reply tells
//
// Bulk writes tell how many documents they matched, not which. Where that is less
// than all, the watermarks of the group's documents are read: one that stands where
// the operation leads to was brought there by it, or by someone who folded the same
// events. A reply that does not come, or a write that no majority has, is
// [Unknown]: the caller loads, and the watermark tells.
//
// All reads are of what a majority has. An event is taken for a duplicate because of
// what was read, and never comes again.
package readmodel
