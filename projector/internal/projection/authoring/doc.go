// Package authoring helps people to write projections: it serves commands of the projector, and
// no event passes through it.
//
//	projector infer    [Inference] writes the section events from a sample of events
//	projector init     [Inference.Starter] also writes a first file of projections, with tests
//	projector explain  [Explain] says what one event did to a read model, and why
//	projector diff     [Difference] compares two definitions, [Changes] two documents
//
// A projector that refuses a changed definition reports its difference, too.
//
// The package knows projections only from outside. What needs the compiler's own tables and
// trees is in package projection: the advice of projector check is found while a file compiles
// ([projection.Check]), and the fold itself records the expressions that it evaluates
// ([projection.Trace]).
package authoring
