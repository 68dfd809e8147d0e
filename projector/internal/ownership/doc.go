// Package ownership binds each name that two pipelines could share to one of them: a
// projection's name, a read model's collection, a subscription. The names are stored in
// the collection pipeline_owners of the database in which they could collide.
//
//	              Take, by anyone                   Take, by another owner
//	(no owner) ───────────────────▶ owned by one ─────────────────────────▶ refused
//	     ▲                             │     ▲
//	     └── Release, by an operator ──┘     └ Take, by the owner's other pods
//
// A projector takes all of its names or none, with one exception: if two pipelines start for the
// first time at the same moment, the slower one can keep names that the other does not use. If the
// subscription has no owner yet, the caller first proves that the broker gives sessions of
// it, so that a misspelt subscription owns nothing. [Check] finds conflicts before that.
//
// The owner of a collection names its projection too, so a collection belongs to one projection
// for good. An owner is never removed automatically, because read models outlive their
// projector: an operator releases it, or drops the projection.
package ownership
