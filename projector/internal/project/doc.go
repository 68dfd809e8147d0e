// Package project turns events into the changes of read models.
//
// A projection is a pure function (state, event) → state, declared in YAML with CEL
// expressions ([Load]) or written in Go ([New]). The [Engine] takes a batch of events. It
// loads the states of their aggregates from a [Store], folds each aggregate's events into
// one change for each projection, has the store write the change, and returns a result for
// every event.
//
// # Declarations
//
//	projections:
//	  - name: users                  # in its watermarks, metrics and parked list
//	    collection: userReadModels   # of this projection only
//	    aggregateType: User          # optional: other types do not concern it
//	    on:
//	      UserEmailUpdatedEvent:     # an event type; one that is not listed changes nothing
//	        when: payload.newEmail != state.email
//	        set: {email: payload.newEmail}
//
// A section events declares the payload schemas of event types. An expression that uses a
// field which the schema lacks is refused. [Inference] writes the section.
//
// The words of a handler are when, set, unset, inc, push, pull, addToSet, min, max and
// delete, and no others. Each operator takes a mapping of field paths to expressions, unset
// takes a list of paths, delete takes true. A path names a field, or with dots a field
// inside of documents. It cannot name an element of an array, and two operations of one
// handler must not change the same value. The comment of each operator's constant says what
// it does with absent fields and with values of other types. A handler is applied
// completely or not at all.
//
// A projection without an aggregateType concerns every aggregate of the store, and
// keeps a watermark for each, even if it never has a document.
//
// A document is created with the first value that an operator stores in it, and deleted by
// delete. It may be created again.
//
// # Definitions
//
// [Projection.Definition] is the canonical text of a declaration. Two declarations with the
// same hash fold the same events to the same result. The text of a declared projection is
// enough to compile it ([Compile]). It contains a schema of the section events only if the
// schema makes CEL choose another operator.
//
// # Expressions
//
// Right-hand sides are CEL. The variables:
//
//   - payload and metadata, empty maps if the event has none;
//   - aggregateId, aggregateType (empty if absent), eventId, eventType;
//   - timestamp, which fails if the event has none;
//   - event, with all of these as fields, and those of the store's document that the
//     contract does not know;
//   - state, the document before the event without _id, lastEventId, lastUpdatedAt and
//     lastGeneration; an empty map if there is no document.
//
// A field of state that is absent reads as null, at any depth: state.status !=
// 'shipped' holds before the first event. has() and .? still distinguish absent from null.
// This holds only for paths that begin with the word state. An absent field of payload,
// metadata or event is an error, because a misspelt name must not read as null.
//
// Optional syntax is on: payload.?note is empty if there is no note, and an operator
// given an empty optional does nothing. The extensions are strings, math, lists,
// sets, regex, cel.bind and comprehensions of two variables.
//
// # Limits
//
// An event must not stop others, whatever its size. An evaluation of an expression that can
// loop may take 100,000 steps of CEL. CEL charges a call after it has returned, and only for
// functions that it has a cost of, so a [meter] bounds the work and the memory of all
// evaluations of one event in one projection. It is charged before the work: by the values
// of the event and the state for each field that is passed on the way to another, and by
// each function with a [price]. A charge must depend only on the event and the document,
// never on time, other projections or earlier events of the batch: otherwise the same event
// would park an aggregate in one process and not in another.
//
// A small event can make a large document. A track drops the fold of such documents, waits
// for its turn, and folds them again, so that the process holds few of them at a time.
//
// An event that is large is evaluated while no other large one is. The time is limited only
// in case a price is wrong. It parks the unit as unavailable, so it is retried. A round
// writes what it has folded after some seconds, because its call ends soon after.
//
// # Numbers
//
// BSON integers of both widths are int, doubles are double. All kinds of numbers can be
// compared and computed with each other, because a driver decides which kind it stores 10
// as. int with int gives int, and an overflow is an error. A double with any other number
// gives a double. A Decimal128 with any other number gives a Decimal128, rounded to 34
// digits; a double is then converted to the shortest decimal that represents it. A
// Decimal128 has + - * and comparisons, but cannot be divided. The operator inc follows the
// same rules.
//
// # Values of BSON
//
// Dates are timestamps (in UTC), and generic binary is bytes. CEL has no type for an
// ObjectId, a UUID and the rarer types: they pass through unchanged, and can be compared
// for equality. string() gives the text of an ObjectId, a UUID or a Decimal128, double()
// the rounded value of a Decimal128. encodeValue defines how results become BSON. Integers
// are stored with 64 bits. Those inside documents and arrays that pass through have 64 bits
// already ([event.Canonical]). Texts, documents and arrays are read in place.
//
// A map that an expression has made has no order in CEL. Loops visit it sorted by key, and
// it is stored with sorted keys, because a fold must always give the same bytes.
//
// # Order
//
// The watermark v of (projection, aggregate) is the id of the last event in its read model.
// An event with the id n is
//
//	n <= v      duplicate: nothing to do
//	n == v+1    apply
//	n >  v+1    gap (strict sequence only): held, or repaired from the event store
//
// Every write is guarded by the watermark that its fold started from. If another writer was
// faster, the write is stale, and the events are folded again from the new state. Because a
// fold is deterministic, both writers reach the same result.
//
// # Targets
//
// The engine folds into targets: generations of projections, each with its collection.
// [Engine.Set] replaces them while batches are running. A batch works for the targets at
// its beginning, and its events are done when all of these are.
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
// A track is one target's part of a batch. It holds its projection's pause lock from before
// it loads until its writes are answered. Pause lets no further track acquire the lock and
// waits for the tracks that hold it; other projections go on. A track that finds its target
// replaced leaves its units pending ([model.ErrSuperseded]), and so does a track that waits
// for the lock for longer than a second ([ErrPaused]). Neither parks an aggregate.
//
// # Sessions
//
// A [Session] is the engine for the events of one session of the topic. As long as the
// process holds it, the session's aggregates have no other regular writer, so:
//
//   - A document that was just written is kept, within a number of bytes, and the next
//     events are folded into it without a load.
//   - In a strict sequence, an aggregate is assumed to be new if its event 1 arrives. If
//     one was not new, the next 256 are loaded.
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
//	              ┌──▶ done       every event is applied, or was before
//	attempt ──────┼──▶ held       the next event is missing: no event after it is done
//	              ├──▶ pending    a store did not answer, or another document holds a
//	              │               unique value: the caller offers the events again
//	              └──▶ parked     an event can never be applied: what came before it is
//	                              written, what comes after it is acknowledged
//
// [Park] ends the waiting of the middle two: a held unit is parked as missing, a
// pending one as unavailable. Both are resumed by themselves from the event store.
// An expression that fails, an operator that does not fit and a document that MongoDB
// refuses park a unit until an operator has it retried. Parking concerns one
// projection alone. If most events of one type fail, the [Judge] calls the projection
// wrong: the units are then parked as [ReasonRule], and resume by themselves.
//
// # One aggregate from the event store
//
// [Engine.Resume] continues a unit without the topic: a parked unit, or a unit that a sweep
// has found behind. It takes the same lock and writes under the same guard as a batch, so
// both can work on the same unit at the same time. It never skips an event: a history that
// does not begin at event 1 parks the unit, and nothing is deleted because the event store
// lacks it. [Accumulator] is the fold alone, for packages that read and write whole ranges
// of aggregates.
package project
