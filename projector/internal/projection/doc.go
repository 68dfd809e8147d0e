// Package projection is the language of projections: it compiles declarations, and folds events
// by them into changes of read models. Package fold has the documents that are changed.
//
// A projection is a pure function (state, event) → state, declared in YAML with CEL
// expressions ([Load]) or written in Go ([New]). It knows neither stores nor other events:
// package engine gives it the events of an aggregate and writes the changes. [Accumulator]
// folds a whole history, for packages that read and write ranges of aggregates.
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
// A section upcasts turns events of earlier versions into later ones before a fold sees them.
//
// A section snapshots names the event types with which a history may begin ([Projection.BeginsAt]).
//
// A section events declares the payload schemas of event types. An expression that uses a
// field which the schema lacks is refused. Package authoring infers the section from events.
//
// The words of a handler are when, set, unset, inc, push, pull, addToSet, min, max and
// delete, and no others. Each operator takes a mapping of field paths to expressions, unset
// takes a list of paths, delete takes true. A path names a field, or with dots a field
// inside of documents. An expression in brackets gives a field's name, or with a = the id of
// elements of an array. Two operations of one handler must not change the same value. The
// comment of each operator's constant says what it does with absent fields and with values of
// other types. A handler is applied completely or not at all.
//
// An event type can have a list of rules, of which the first one that holds acts. The
// section compute has fields that are computed from the document after each change.
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
// enough to compile it ([Compile]). Of the section events it has the types of the fields that the
// expressions read (declaredtypes.go). Expressions are checked against the whole section, and then
// compiled without it.
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
// loop may take 100,000 steps of CEL, which counts them ([callCost]). CEL charges a call after it
// has returned, and does not know what it costs to read BSON. So a [meter] bounds the rest of the
// work, and the memory, of all evaluations of one event in one projection, before they are spent:
// the fields that are passed on the way to another, and the calls of functions with a [bound].
// A charge must depend only on the event and the document,
// never on time, other projections or earlier events of the batch: otherwise the same event
// would park an aggregate in one process and not in another.
//
// A small event can make a large document: see [Projection.FoldWithin].
//
// An event that is large is evaluated while no other large one is. If no time is left for its
// turn, it parks the unit as unavailable, so it is retried. A round
// writes what it has folded after some seconds, because its call ends soon after.
//
// # Numbers
//
// BSON integers of both widths are int, doubles are double. All kinds of numbers can be
// compared and computed with each other, because a driver decides which kind it stores 10
// as. int with int gives int, and an overflow is an error. A double with any other number
// gives a double. A Decimal128 with any other number gives a Decimal128, rounded to 34
// digits; a double is then converted to the shortest decimal that represents it. The
// operator inc follows the same rules. CEL's functions of numbers, of order and of conversion
// take Decimal128s. math.round and math.divide round to places in a stated way, and sum is exact
// before it is rounded once, so it does not depend on the order.
//
// # Times
//
// plus, startOf and strftime compute by the clocks of a zone that the expression names, and in
// UTC without one, never by the zone of the process. duration and total have a stated unit.
//
// # Values of BSON
//
// Dates are timestamps (in UTC), and generic binary is bytes. CEL has no type for an
// ObjectId, a UUID and the rarer types: they pass through unchanged, and can be compared
// for equality. string() gives the text of an ObjectId, a UUID or a Decimal128, double()
// the rounded value of a Decimal128, int() its whole part. encodeValue defines how results become BSON. Integers
// are stored with 64 bits. Those inside documents and arrays that pass through have 64 bits
// already ([event.Canonical]). Texts, documents and arrays are read in place.
//
// A map that an expression has made has no order in CEL. Loops visit it sorted by key, and
// it is stored with sorted keys, because a fold must always give the same bytes.
//
// # Files
//
//	YAML          load, declare, vocabulary, path, list, compute, upcast, snapshot, schema
//	messages      problem, syntax, remedy; advice of projector check
//	definitions   definition, source
//	CEL           environment, expression, absent; view, values, opaque, order, encode
//	functions     function, call; arithmetic, numbers, equality, reduce, times
//	limits        meter, cost, bound
//	folds         projection, fold, handler, operation, state, equalvalues, accumulator, trace,
//	              errors; the documents are those of package fold
//	views         views, viewadvice, viewdeclaration, contribution
package projection
