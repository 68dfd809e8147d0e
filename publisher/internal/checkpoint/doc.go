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
// A scan's position also holds its [Lap]: where the scan began if the oplog lost the stream
// in between, and how far the stream was followed for the scanned part.
//
// The scan, the mark at its end and the stream that follows go through one
// Watermark: nothing has to be drained in between. That mark is saved as soon as it
// is reached, so that a crash after a scan does not bring it about again.
//
// # Identity
//
// A position means nothing for another event store, and a token that was saved for one
// topic says nothing of another. So the checkpoint records its [Identity]: cluster,
// database, collection and the collection's UUID; namespace, topic and session mode. A
// claim of another pipeline fails with [ErrOtherPipeline], prints what differs, and changes
// nothing. An adoption is a claim with the code that this error carries.
//
// No id that every user may read names a cluster for good: the name of a replica set is
// often rs0, and a cluster's own id is for administrators. Two clusters of one name count as
// two if they share no member and their collections differ in UUID, which the server draws
// at random.
//
// Another collection of the same name is no other pipeline. The collection's UUID is saved
// together with the first position in it, so that a later term knows which one a position
// belongs to.
//
// # Fencing
//
// [Store.Claim] issues an epoch at the start of a term, by one atomic $inc. Every
// [Claim.Save] matches on the epoch and its holder: after a later claim it matches
// nothing and fails with [ErrFenced]. That holds for a process that was frozen and
// for a request that was under way for minutes, where a lease alone does not.
package checkpoint
