// Package query answers whether read models have an event. A program that has written an
// event asks for it, and can read its own write after a positive answer.
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
// The ids of an aggregate's events are 1, 2, 3 and so on, so a read model with the watermark n
// has every event up to n, and the answer "applied" is exact.
//
// # What the answer rests on
//
// The source returns the watermark of the live generation, from the document or, for an
// aggregate without one, from the side watermark. A generation that is being built does
// not count, and a projection without a live generation has no watermark. The source
// reads the parked list first, then the watermarks. If they change between the reads, the
// answer can only be "not yet" too often, and never "applied" too early.
//
// An event that changes nothing moves the watermark too. But an aggregate whose type does not
// concern the projection has no watermark in it, so its events are never applied. The request
// does not name the type, so such a request waits until its timeout.
//
// # Cost
//
// All requests of a process share one poll. It looks up every pair for which a request
// waits, each of them once, in groups of at most [maxLookup]. So the number of queries does
// not depend on the number of requests, and without requests there are none. The number
// of waiting requests and of their pairs is bounded. Beyond the bounds the answer is 503.
package query
