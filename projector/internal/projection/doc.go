// Package projection is the language of projections: it compiles declarations, and folds events
// by them into changes of read models. Package fold has the documents that are changed.
//
// A projection is a pure function (state, event) → state, declared in YAML with CEL
// expressions ([Load]) or written in Go ([New]). It knows neither stores nor other events:
// package engine gives it the events of an aggregate and writes the changes. [Accumulator]
// folds a whole history, for packages that read and write ranges of aggregates.
//
// docs/projections.md and docs/views.md describe the language: its sections, words, paths, variables,
// numbers and times. The comment of each operator's constant says what it does with absent fields
// and with values of other types. A handler is applied completely or not at all. A document is
// created with the first value that an operator stores in it.
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
// Right-hand sides are CEL. A field of state that is absent reads as null, at any depth
// ([stateAttribute]): state.status != 'shipped' holds before the first event. This holds only for
// paths that begin with the word state. An absent field of payload, metadata or event is an error,
// because a misspelt name must not read as null.
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
// # Values of BSON
//
// Both widths of integers are int. All kinds of numbers can be compared and computed with each other,
// because a driver decides which kind it stores 10 as ([replacement]). CEL has no type for an
// ObjectId, a UUID and the rarer types: they pass through unchanged ([opaque]). encodeValue defines
// how results become BSON. Integers are stored with 64 bits. Those inside documents and arrays that
// pass through have 64 bits already ([event.Canonical]). Texts, documents and arrays are read in
// place.
//
// A map that an expression has made has no order in CEL. Loops visit it sorted by key, and
// it is stored with sorted keys, because a fold must always give the same bytes.
package projection
