// Package memory implements a projector's stores in memory: read models with their
// watermarks, the list of parked aggregates, and the event store. Tests of projections
// run the engine on it, so that they need no database.
//
// # Guards
//
// A write takes effect under the same condition as in package readmodel, one write at a
// time:
//
//	Update         the document has the watermark From and the unit's generation
//	Create         no document; and the side watermark From if the projection deletes
//	MoveWatermark  always; the side watermark only rises
//	Delete         as MoveWatermark, then the document under the guard of Update
//	Erase          as MoveWatermark, then the document with a watermark up to To
//
// A property test compares every write, and every state after it, with package readmodel
// on a server. Validators and unique indexes are not implemented: a write is rejected
// only if its document exceeds MongoDB's size limit.
//
// A unit of a view has a part, kept with its watermark and the number of its writes. A write
// takes effect if both are those of the folded state. It changes the part and, through
// [model.View], the documents to which the part contributes, all at once.
//
// # Crashes
//
// [Stores.CrashAfterWrites] simulates a crash after each write that changes data: the
// write is kept, the process gets no answer, and every later call fails with [ErrCrashed]
// until [Stores.Restart].
package memory
