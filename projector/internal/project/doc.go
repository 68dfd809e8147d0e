// Package project turns events into the changes of read models.
//
// A projection is a pure function (state, event) → state, declared in YAML with
// CEL expressions ([Load]) or written in Go ([New]). The [Engine] takes a batch of
// events in the order of their aggregates, asks a [Store] for the states that they
// concern, folds each aggregate's events to one change for each projection, has
// the store write it and says what became of every event.
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
package project
