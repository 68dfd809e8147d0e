// Package model has the types that the packages around a read model share: a read model's
// identity ([Unit]), its stored state ([State]), its changes ([Write], [Written]), what has
// become of an event ([Verdict]), and its parking ([Marker], [Position], [Head], [Claimed],
// [Failure]). It names the fields of a document that are the engine's.
//
// The engine folds, the store reads and writes, and the parked list keeps markers. These
// packages do not import each other but exchange the same values. With shared types, no
// package has to convert them. The package has no behaviour of its own.
package model
