// Package checkpoint stores how far the event store has been published, so that a term
// resumes at a position that the previous term has completed.
//
//	 events read                                  acknowledgements, in any order
//	      │                                                    │
//	      ▼ Add                                                ▼ Ack
//	┌─ Watermark ──────────────────────────────────────────────────────┐
//	│      ✓  ✓  ✓  ✓  ✓ │ ·  ✓  ✓  ·  ✓  ✓  ✓  ·  ·  ·                │
//	└────────────────────┴─────────────────────────────────────────────┘
//	                     ▲ Low: it and all before it are acknowledged
//	                     │
//	                   Saver ── every second, and at the end ─────────────▶ Claim.Save
//	                                                                          │
//	                       {_id: stream, epoch, holder, token, …} ◀── matches only the
//	                                                                  epoch that it claimed
//
// The stored position is always in one of these states; see [Position]:
//
//	           start: beginning                     scan is over
//	nothing ───────────────────▶ scan after an event ───────────▶ stream from a time
//	   │                                 ▲                          ▲       │ first
//	   │                                 │ history lost             │       ▼ save
//	   │                                 └────────────── stream after a token
//	   └──────────────────── start: now, or a time ─────────────────┘
//
// A scan's position also holds how far the stream was followed for the scanned part.
//
// The scan, the mark at its end and the stream that follows use one Watermark, so nothing
// has to be drained between them.
//
// # Identity
//
// A position is valid only for one event store and one topic. So the checkpoint records its
// [Identity]: cluster, database, collection and the collection's UUID; namespace, topic and
// session mode. A claim by another pipeline fails with [ErrOtherPipeline], lists the
// differences, and changes nothing. [Store.Release] gives the checkpoint to another pipeline.
//
// There is no permanent id of a cluster that every user may read: the name of a replica set
// is often rs0, and only administrators may read a cluster's own id. Two clusters with one
// name count as different if they share no member and their collections differ in UUID,
// which the server draws at random.
//
// Another collection with the same name belongs to the same pipeline. The collection's UUID
// is saved together with the first position in it, so that a later term knows the
// collection of a position.
//
// # Fencing
//
// [Store.Claim] issues an epoch at the start of a term, by one atomic $inc. Every
// [Claim.Save] matches on the epoch and the id of the claim. After a later claim it matches nothing
// and fails with [ErrFenced]. This also fences a process that was frozen and a request that
// took minutes, which a lease alone cannot do.
package checkpoint
