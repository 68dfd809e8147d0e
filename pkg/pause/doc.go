// Package pause lets an operator pause a service without stopping its processes. A pause is
// a document in the collection pauses of the state database.
//
//	{_id: {service: "publisher", name: "events"},
//	 who: "ada@pod", why: "the topic moves", at: ..., stopped: ["publisher-0_1a2b"]}
//
// The document exists while the service is paused. Every process reads it each second by
// its [Switch]. Work runs only under a context of [Switch.Working], which ends when a
// pause begins. A process whose work has ended adds its name to stopped, so that a
// command can wait until nothing works any more.
//
//	         document found               document gone
//	working ───────────────▶ paused ───────────────────▶ working
//	   ▲
//	   └── first read: no document ── unknown ── first read: document ──▶ paused
//
// Before the first successful read no process works, so that a pause also holds for a new
// process, and [Switch.Check] reports that the process is not ready. After it, a failed
// read changes nothing.
package pause
