// Package query answers whether read models have an event: a program that has written an
// event asks, and reads its own write when the answer is yes.
//
//	GET /applied?projection=users&aggregateId=u-1&eventId=3&timeout=2s
//
//	            watermark ≥ event
//	pending ───────────────────────▶ applied
//	   │    parked before the event
//	   ├───────────────────────────▶ parked      at once, with the reason
//	   │    the time is over
//	   └───────────────────────────▶ timeout     with watermark and head
//
// Where the ids of an aggregate's events are 1, 2, 3 and so on, a watermark of n is a
// completed prefix: the read model has every event up to n. So the answer is true. Where
// ids only increase, the answer says that the read model has passed n.
//
// # What the answer rests on
//
// The source gives the watermark of the live generation, from the document or, for an
// aggregate without one, from the side watermark. A generation that is being built does
// not count, and a projection that has no live generation yet has no watermark. The
// source reads the parked list first, then the side watermarks, then the documents. Each
// of them only moves in the direction that makes the answer no too early rather than yes
// too early.
//
// # Cost
//
// All requests of a process share one poll: it looks up every pair that anyone waits for,
// each of them once, in groups of at most [maxLook]. So the number of queries does not
// depend on the number of requests, and without requests there are none. The requests that
// wait and their pairs are bounded; beyond the bounds the answer is 503.
package query
