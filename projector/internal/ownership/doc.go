// Package ownership binds each name that two pipelines could share to one of them: a
// projection's name, a read model's collection, a subscription. The names stand in the
// collection pipeline_owners of the database in which they could collide.
//
//	              Take, by anyone                     Take, by another pipeline
//	(no owner) ───────────────────▶ owned by one ───────────────────────────────▶ refused
//	                                  │      ▲ Take, by the owner's other pods
//	                                  │      │
//	                                  └──────┘ Take, by another with the right code
//
// A name without an owner is taken: that is how data of an earlier version gets one. A
// projector takes all of its names or none, except if two pipelines start at the same
// moment for the first time: the slower one may keep names that the other does not use.
//
// An owner is never given up by itself, because read models outlive their projector. The
// code of a refusal depends on both sides, so it allows that one takeover only.
package ownership
