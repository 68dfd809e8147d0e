// Package readmodel reads and writes read models in MongoDB, in groups: what all
// sessions of a projector want at about the same time travels together.
//
// # Watermarks
//
// A read model document has the aggregate's id as _id, the id of its last event as
// lastEventId and the time of its last change as lastUpdatedAt. An aggregate
// without a document keeps its watermark in the collection watermarks, under
// {projection, aggregateId}, with the generation if that is not the first. It says that
// there is no document as of that event. Where the document exists, it alone is the
// watermark.
//
// # Guards
//
// Whoever folds starts from a watermark, and what they write takes effect only if
// that still is the watermark. So of two that fold the same events, one is stale
// and looks again, and it does not matter which.
//
//	Update         update {_id, lastEventId: from, lastGeneration}
//	Create         insert; E11000 on _id is stale
//	MoveWatermark  upsert of the side watermark, $max
//	Delete         the same, then delete {_id, lastEventId: from, lastGeneration}
//	Erase          the same, then delete {_id, lastEventId: {$lte: to}, lastGeneration}
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
// # Generations
//
// The definitions of a projection have generations 1, 2, 3 … A document names its
// generation as lastGeneration, and a side watermark names it in its _id. The first
// generation names itself nowhere: documents from before there were generations belong to
// it. Its guards match lastGeneration: null.
//
// A new generation is built in a shadow collection, and then takes the name of the live
// one. A pod that does not know that may still write for the old generation. These
// statements hold at any time, whatever such a pod does:
//
//   - A document of generation g with the watermark w is the fold of the events up to w
//     under definition g, unless it was falsified by hand.
//   - A side watermark w of generation g says that this fold has no document. So it stays
//     true if the documents are renamed, dropped or built again.
//   - No write of one generation matches a document or a watermark of another one, with
//     one exception, the removal below. So a stale pod changes no document of the live
//     generation.
//   - An insert takes effect only if there is no document under the aggregate's id. So a
//     stale pod creates a document only if the live generation has none, and then the
//     live generation's side watermark is its true state.
//
// A document of an older generation is therefore absent for the unit that loads it
// (State.Foreign), and the unit goes on from its side watermark. Its next write replaces
// exactly that document, guarded by the document's own generation and watermark, in one
// step. Between a removal and an insert, another writer would find neither the document
// nor a watermark, and where ids only increase it would apply its event to nothing. A
// write that leaves no document raises the side watermark first and then removes the
// foreign document. If the process ends in between, or if a unit has no next write, the
// document stays until a sweep removes it ([Repairer.RemoveForeign]).
//
// A document of a newer generation means that the unit's own one is out of force: it loads
// as [model.ErrSuperseded], and nothing removes the document. Both rest on numbers that only
// rise: no generation's number is ever used again, not even that of a build that was given
// up.
//
// # States that are kept
//
// A caller may fold into the state that its last write left, without a load. Between the
// two, a repair may have replaced the document and left its watermark as it was, and the
// guard on the watermark would match what the caller never saw. So such a write is exact:
// it also matches lastUpdatedAt. That is unique for each content of a document with the
// same watermark:
//
//   - A write gives the document a later lastUpdatedAt than the one of the state that was
//     folded, and than that of the foreign document that it replaces, whatever the clock
//     says. Only a write that moves the watermark alone leaves it.
//   - [model.Written].UpdatedAt is given only if the write certainly was this one. If a
//     reply shows that another writer may have made it, there is nothing to keep.
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
