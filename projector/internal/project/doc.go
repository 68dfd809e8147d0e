// Package project turns events into the changes of read models.
//
// A projection is a pure function (state, event) → state, declared in YAML with
// CEL expressions ([Load]) or written in Go ([New]). The [Engine] takes a batch of
// events in the order of their aggregates, asks a [Store] for the states that they
// concern, folds each aggregate's events to one change for each projection, has
// the store write it and says what became of every event.
//
// # Declarations
//
//	projections:
//	  - name: users                  # of its watermarks, metrics and parked list
//	    collection: userReadModels   # its alone
//	    aggregateType: User          # optional: others do not concern it
//	    on:
//	      UserEmailUpdatedEvent:     # an event type; one that is not listed changes nothing
//	        when: payload.newEmail != state.email
//	        set: {email: payload.newEmail}
//
// The words of a handler are when, set, unset, inc, push, pull, addToSet, min, max
// and delete, and no others. Each operator takes a mapping of field paths to
// expressions, unset a list of paths, delete true. A path names a field, or with
// dots one inside of documents; it does not lead into arrays, and two operations
// of one handler never work on the same value. What each operator does with absent
// fields and with values of other types stands at its constant. A handler is
// carried out whole or not at all.
//
// A projection without an aggregateType concerns every aggregate of the store, and
// keeps a watermark for each, even where it never has a document.
//
// A document comes into being with the first value that an operator stores in it,
// and goes with delete; it may come again.
//
// # Expressions
//
// Right-hand sides are CEL. The variables:
//
//   - payload and metadata, empty maps where the event has none;
//   - aggregateId, aggregateType (empty where absent), eventId, eventType;
//   - timestamp, which fails where the event has none;
//   - event, with all of these as fields, and those of the store's document that the
//     contract does not know;
//   - state, the document before the event without _id, lastEventId and
//     lastUpdatedAt; an empty map where there is none.
//
// Optional syntax is on: payload.?note is empty where there is no note, and an
// operator given an empty optional does nothing. Numbers compare across types, but
// compute only with their like: int() and double() convert. The extensions are
// strings, math, lists, sets, regex, cel.bind and comprehensions of two variables.
// One evaluation may take 100,000 steps.
//
// BSON integers of both widths are int, doubles double, dates timestamps (in UTC),
// generic binary bytes. CEL has no word for an ObjectId, a UUID, a Decimal128 and
// the rarer types: they pass through unchanged, compare for equality, and the first
// three give their text to string(), a Decimal128 its rounded value to double().
// encodeValue says how results become BSON. Integers are stored as 64 bits wide.
//
// # Order
//
// Against the watermark v of (projection, aggregate), the id n of the last event
// in its read model:
//
//	n <= v      duplicate: nothing to do
//	n == v+1    apply
//	n >  v+1    gap (strict sequence only): held, or repaired from the event store
//
// Every write is guarded by the watermark that its fold started from. A write that
// is stale, because someone else was faster, is folded again from the new state;
// since a fold is deterministic, both come to the same end.
//
// # Failure
//
// What is transient is tried again until the context ends. What is not (an
// expression that fails, an operator that does not fit, a document that MongoDB
// refuses) parks the aggregate in that projection alone: what came before the event
// is written, and what comes after it is acknowledged and stays in the event store.
package project
