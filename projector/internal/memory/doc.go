// Package memory keeps in memory what a projector keeps in MongoDB: read models with their
// watermarks, the list of parked aggregates, and the event store. The tests of projections
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
// A property test holds every write, and every state that is loaded after it, equal to
// package readmodel on a server. Validators and unique indexes of a collection are not
// here: a write is rejected only if its document is larger than MongoDB's.
//
// # Crashes
//
// [Stores.CrashAfterWrites] makes a process end after each write that changes something:
// the write stays, the process gets no answer, and every later call fails with
// [ErrCrashed] until [Stores.Restart].
package memory
