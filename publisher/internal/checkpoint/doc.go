// Package checkpoint remembers how far the event store has been published, so that
// a term resumes where the one before it was safe.
//
//	 events read                                  acknowledgements, in any order
//	      │                                                    │
//	      ▼ Add                                                ▼ Ack
//	┌─ Watermark ──────────────────────────────────────────────────────┐
//	│      ✓  ✓  ✓  ✓  ✓ │ ·  ✓  ✓  ·  ✓  ✓  ✓  ·  ·  ·                │
//	└────────────────────┴─────────────────────────────────────────────┘
//	                     ▲ Low: it and all before it are acknowledged
//	                     │
//	                   Saver ── every second, every N events, at the end ──▶ Claim.Save
//	                                                                          │
//	                       {_id: stream, epoch, holder, token, …} ◀── matches only the
//	                                                                  epoch that it claimed
//
// What is stored is always in one of these states; see [Position]:
//
//	           start: beginning                     scan is over
//	nothing ───────────────────▶ scan after an event ───────────▶ stream from a time
//	   │                                 ▲                          ▲       │ first
//	   │                                 │ history lost             │       ▼ save
//	   │                                 └────────────── stream after a token
//	   └──────────────────── start: now, or a time ─────────────────┘
//
// The scan, the mark at its end and the stream that follows go through one
// Watermark: nothing has to be drained in between. That mark is saved as soon as it
// is reached, so that a crash after a scan does not bring it about again.
//
// # Fencing
//
// [Store.Claim] issues an epoch at the start of a term, by one atomic $inc. Every
// [Claim.Save] matches on the epoch and its holder: after a later claim it matches
// nothing and fails with [ErrFenced]. That holds for a process that was frozen and
// for a request that was under way for minutes, where a lease alone does not.
package checkpoint
