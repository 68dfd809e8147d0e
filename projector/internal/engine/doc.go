// Package engine applies batches of events to read models.
//
// The [Engine] takes a batch of events. It loads the states of their aggregates from a
// [Store], has each projection fold the events of an aggregate into one change (package
// projection), has the store write the change, and returns a result for every event.
//
// # Order
//
// The watermark v of (projection, aggregate) is the id of the last event in its read model.
// An event with the id n is
//
//	n <= v      duplicate: nothing to do
//	n == v+1    apply
//	n >  v+1    gap: held, or repaired from the event store
//
// If the first event that the event store has of the aggregate is a snapshot after the watermark,
// the events before it were archived. Then the unit begins anew: it folds that event and the
// later ones from nothing, and the write replaces its document.
//
// Every write is guarded by the watermark that its fold started from. If another writer was
// faster, the write is stale, and the events are folded again from the new state. Because a
// fold is deterministic, both writers reach the same result.
//
// # Targets
//
// The engine folds into targets: generations of projections, each with its collection.
// [Engine.Set] replaces them while batches are running. A batch works for the targets at
// its beginning, and its events are done when all of these are. If the targets were replaced
// meanwhile, none of its events is done, and the caller offers them again.
//
//	              start                  catch up                 promote
//	live g ─────────────▶ live g        ─────────────▶ live g     ─────────────▶ live g+1
//	                      building g+1,                building g+1
//	                      defers
//
// Each arrow is a Set. The last one is between [Engine.Pause] and [Engine.Continue], and
// after the rename of the collection.
//
// From the moment at which a generation that is being built is a target, it gets every
// event. A job folds the older events. While the generation defers, an event that does not
// follow its watermark is left to that job, unless one page of the event store closes the
// gap. When it no longer defers, an event is done only when the generation has it. A batch
// that still defers has only events that were already in the event store. So a sweep that
// starts after that, and finds no aggregate behind its head, completes the generation.
//
// The live generation and the one that will replace it are written at the same time. If a
// process dies between the two writes, and the promotion comes before the message is delivered
// again, readers see the aggregate one message behind until then.
//
// A track is one target's part of a batch. It holds its projection's pause lock from before
// it loads until its writes are answered. Pause lets no further track acquire the lock and
// waits for the tracks that hold it; other projections go on. A track that finds its target
// replaced leaves its units to be retried ([model.ErrSuperseded]), and so does a track that
// waits for the lock for longer than a second ([ErrPaused]). Neither parks an aggregate.
//
// # Several projections, large documents
//
// The projections of a batch load, fold and write concurrently, and each collection has
// queues of its own. So a collection that is slow or cannot be read or written delays no
// other, and the writes of the others stay. An event is done when all projections have
// applied it.
//
// Documents are loaded page by page within PENSTOCK_LOAD_BYTES, over all sessions of the
// process. If the documents of a batch do not fit, each page is written and released before
// the next one is loaded.
//
// # Sessions
//
// A [Session] is the engine for the events of sessions of the topic. As long as the process
// holds a session, the session's aggregates have no other regular writer, so:
//
//   - A document that was just written is kept, within PENSTOCK_KEEP_BYTES, and the next
//     events are folded into it without a load. It is kept beyond the end of the
//     session: the next event shows whether another process has written meanwhile.
//   - An aggregate is assumed to be new if its event 1 arrives. If one was not new, the
//     next 256 are loaded.
//
// Both are only assumptions. They lead only to an exact Update, or to a Create of a unit
// without any watermark, and the store refuses both if the assumption is wrong. Then, and
// whenever the fold fails or has another result, the unit is loaded in the same call, and
// only the stored state counts. A kept state belongs to one target. It is dropped at a
// promotion, and when another definition will replace the target.
//
// # Failure
//
// A call makes one attempt and waits for nothing. A unit, which is one aggregate in one
// projection, ends the call in one of these states:
//
//	              ┌──▶ done     every event is applied, or was before
//	attempt ──────┼──▶ parked   an event cannot be applied, for good or for now: the events
//	              │             before it are written, and those after it acknowledged
//	              └──▶ retry    a store does not answer, or a promotion pauses the writes:
//	                            the caller offers the events again
//
// A unit that lacks an event reads it from the event store. If the store answers and the unit
// cannot go on, it is parked at once: as missing if the event store does not have the event, as
// conflict if another document has a unique value, as unavailable if a store fails for the unit
// twice while it takes writes of others. These three resume by themselves from the event store.
// Every other failure need not come from the unit, so the verdict is a retry.
//
// An expression that fails, an operator that does not fit and a document that MongoDB
// refuses park a unit until an operator has it retried. Parking concerns one
// projection alone.
//
// # One aggregate from the event store
//
// [CatchUp] continues a unit without the topic, page by page: a parked unit, a unit that a
// build or a sweep has found behind, or the unit of a dead letter. Each page ([Engine.Resume])
// takes the same lock and writes under the same guard as a batch, so both can work on the same
// unit at the same time. It never skips an event: a history that begins neither at event 1
// nor with a snapshot parks the unit, and nothing is deleted because the event store lacks it.
package engine
