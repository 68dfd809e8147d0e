// Package ownership binds each name that two pipelines could share to one of them: a
// projection's name, a read model's collection, a subscription. The names are stored in
// the collection pipeline_owners of the database in which they could collide.
//
//	              Take, by anyone                     Take, by another pipeline
//	(no owner) ───────────────────▶ owned by one ───────────────────────────────▶ refused
//	                                  │      ▲ Take, by the owner's other pods
//	                                  │      │
//	                                  └──────┘ Take, by another with the right code
//
// A projector takes names without an owner, also those of data from an earlier version. It
// takes all of its names or none, with one exception: if two pipelines start for the first
// time at the same moment, the slower one can keep names that the other does not use. If the
// subscription has no owner yet, the caller first proves that the broker gives sessions of
// it, so that a misspelt subscription owns nothing. [Check] finds conflicts before that.
//
// An owner is never removed automatically, because read models outlive their projector.
// The code of a refusal depends on both owners, so it allows only that takeover.
// Each name that is taken over records the code and its former owner. So if a takeover of
// several names was interrupted, or several pods make it at the same time, the code still
// allows the rest of it.
//
// # Generation numbers
//
// A suspended pod of a former owner of a collection can continue in the middle of a write.
// Its documents must count as those of an older generation. So [Numbers] has the highest
// generation numbers that each projection has used for each collection, and a projection
// that takes a collection over begins above them. The numbers are in the database of the read
// models. So they hold after a projection was renamed, after the state database was lost or
// restored, and between pipelines with separate state databases.
package ownership
