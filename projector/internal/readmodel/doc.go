// Package readmodel reads and writes read models in MongoDB. It groups the requests that
// all sessions of a projector make at about the same time.
//
// # Watermarks
//
// A read model document has the aggregate's id as _id, the id of its last event as
// lastEventId and the time of its last change as lastUpdatedAt. lastEventId is the
// watermark. An aggregate without a document has a side watermark in the collection
// watermarks, under {projection, aggregateId, generation}. A side watermark says that there is no
// document as of that event. If the document exists, the side watermark does not count.
//
// # Guards
//
// A fold starts from a watermark, and its write takes effect only if that is still the
// watermark. So if two processes fold the same events, one write takes effect. The other
// one is stale, and its process loads again. It does not matter which of them was first.
//
//	Update         update {_id, lastEventId: from, lastGeneration}
//	Create         insert; E11000 on _id is stale
//	MoveWatermark  upsert of the side watermark, $max
//	Delete         the same, then delete {_id, lastEventId: from, lastGeneration}
//	Erase          the same, then delete {_id, lastEventId: {$lte: to}, lastGeneration}
//
// A delete raises the side watermark first. If the process dies in between, the document
// still exists with its own watermark, the event is delivered again, and the delete is
// repeated.
//
// The insert of a late writer could restore a deleted document. A projection that deletes
// therefore creates in a transaction that also writes to the side watermark, if that is
// still the one that the fold started from. Reading it would not be enough: if a batch
// creates and deletes a document, the watermark is the only thing that the insert can
// conflict with.
//
// # Generations
//
// Each definition of a projection is a generation. Its number is the time of its declaration,
// and the first one over an empty event store is 1. A document has its generation in
// lastGeneration, and a side watermark has it in its _id.
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
// So a document of an older generation counts as absent for a unit that loads it
// (State.Foreign), and the unit continues from its side watermark. Its next write replaces
// exactly that document, guarded by the document's generation and watermark, in one step.
// A write that leaves no document raises the side watermark first and
// then removes the foreign document. If the process ends in between, or if a unit has no
// next write, the document stays until a sweep removes it ([Repairer.RemoveForeign]).
//
// A document of a newer generation means that the unit's own generation was replaced. The
// unit loads as [model.ErrSuperseded], and nothing removes the document. Both rules need
// numbers that only rise: no generation's number is used again, not even that of a build
// that was given up.
//
// # States that are kept
//
// A caller may fold into the state of its last write, without a load. Meanwhile a repair
// may have replaced the document and kept its watermark, so the guard on the watermark
// would match a document that the caller has not seen. Such a write is therefore exact: it
// also matches lastUpdatedAt. Documents with the same watermark and different content have
// different lastUpdatedAt:
//
//   - A write gives the document a later lastUpdatedAt than the one of the state that was
//     folded, and than that of the foreign document that it replaces, whatever the clock
//     says. Only a write that moves the watermark alone leaves it.
//   - [model.Written].UpdatedAt is set only if this write certainly took effect. If another
//     writer may have made the change, the caller keeps nothing.
//
// # Views
//
// A view's document is made of the parts of many aggregates. A unit with Parts has a part
// instead of a document. The part is in the unit's side watermark, which is its record:
//
//	watermarks                                         the view's collection
//	┌───────────────────────────────────────────┐
//	│ _id: {projection: orders, aggregateId: 1} │      ┌─────────────────────┐
//	│ lastEventId: 7   updatedAt: …             │      │ _id: c-1            │
//	│ part: {…, documents: [{key: c-1, …}]} ────┼──┬──▶│ lastUpdatedAt: …    │
//	└───────────────────────────────────────────┘  │   │ lastGeneration: 2   │
//	┌───────────────────────────────────────────┐  │   │ parts: 2            │
//	│ _id: {projection: orders, aggregateId: 2} │  │   │ …                   │
//	│ lastEventId: 3   updatedAt: …             │  │   └─────────────────────┘
//	│ part: {…, documents: [{key: c-1, …},      │──┘   ┌─────────────────────┐
//	│                       {key: c-2, …}]} ────┼─────▶│ _id: c-2  parts: 1 …│
//	└───────────────────────────────────────────┘      └─────────────────────┘
//	┌───────────────────────────────────────────┐
//	│ _id: {projection: orders, aggregateId: 3} │      deleted: a watermark without a part
//	│ lastEventId: 9   updatedAt: …             │
//	└───────────────────────────────────────────┘
//
// A group of writes is one transaction. It reads the records; a write is stale if its record
// has not exactly the watermark and the updatedAt that it was folded from. Then it reads the
// documents to which the parts contribute before or after, writes the records, computes the
// documents by [model.View], and writes them. So at any moment, for each generation:
//
//   - A part is the fold of its aggregate's events up to the record's watermark.
//   - A document is what its view makes of all parts that list it. A document that no part lists
//     does not exist.
//
// If a document cannot be computed from the changes alone, the transaction reads all its
// parts, by the index that [PrepareViews] creates. Another transaction may change one of these
// parts at the same time. So a transaction writes every document of a part that it changes,
// with a new lastUpdatedAt, even if the rest of the document stays the same. Then both write
// the document, and one of them conflicts and is repeated.
//
// Documents that change are in memory together, so their bytes are bounded. A group that
// exceeds the bound is divided, and an operation that does so alone is rejected. Parts are read
// one after the other, however many a document has.
//
// A document of an older generation counts as absent: it is computed from all parts, and
// replaced. A write that finds a document of a newer generation ends with
// [model.ErrSuperseded].
//
// # Replies of the server
//
// A bulk write tells how many documents it matched, not which. If that is less than all,
// the watermarks of the group's documents are read. If a document has the watermark that an
// operation leads to, that operation, or another writer that folded the same events, has
// written it. If there is no reply, or no majority has the write, the status is [Unknown]:
// the caller loads again, and the watermark shows what happened.
//
// All reads have majority read concern, because an event that counts as a duplicate of a
// write is not delivered again.
package readmodel
