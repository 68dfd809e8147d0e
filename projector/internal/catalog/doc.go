// Package catalog stores the catalog of projections: the live definition of each, the
// one being built, and the earlier ones. It also keeps the registry of the pods, and
// decides what a pod does when its declarations and the catalog differ. Its coordinator
// makes a building generation the live one.
//
// # Generations
//
// A generation's number is the time of its declaration in milliseconds, and the first one
// over an empty event store is 1. A number is never used twice, not even after a build that
// failed or was cancelled, and it is larger than those of the read models and watermarks
// that exist. Documents, side watermarks and markers contain the number. So the
// data of two generations never mix, also after the loss of the catalog. A projection whose
// catalog entry was lost is built anew; until then, its read models stay as they are.
//
//	                  declared anew            proven by the coordinator
//	(no entry) ──────────────────▶ building ───────────────────────────▶ live
//	     │                          │    ▲                                │  │
//	     │ nothing to build from    │    │ declared with another          │  │ no alive pod
//	     │                          │    │ definition: rebuild            │  │ declares it
//	     └────────────────────────────────────────────────────────▶ live ─┘  ▼
//	                                │                                      retired
//	          another definition, or ▼                                       │ drop
//	          a cancellation     garbage                                     ▼
//	                                                                      (no data)
//
// A projection can have a live and a building generation at the same time. During its
// first build it has no live one.
//
// # Definitions
//
// The canonical text of a declaration identifies a definition, and definitions are compared
// by its hash (package projection). The catalog keeps the text. Every pod compiles the live
// definition and the one that is being built from the catalog, whatever its own file says.
//
// # Decisions
//
// [Decide] is a pure function. Every pod calls it regularly with the same catalog and
// registry, and writes the result by compare-and-swap on the entry's revision. So it does
// not matter which pod is first, and no pod needs a special role. A definition that the
// projection has had before replaces the present one only if no alive pod declares the
// present one. So a pod with an old file that restarts during a rollout changes nothing,
// and a rollback rebuilds the old definition as soon as the last new pod is gone.
//
// If an operator cancels a build ([GiveUp]), the pods that declare its definition do not
// start it again. The entry records the definition until another build starts.
//
// # Registry and trust
//
// A pod registers before it reads the catalog, and renews its registration every 5 s. A
// registration lasts 30 s, measured by the server's clock. If renewals fail, the pod
// stops trusting its own view ([Registry.Trusted]) before the other pods consider it
// gone. So it settles no event based on an outdated catalog.
//
// A projection that no alive pod declares for 30 s is retired.
//
// # Builds
//
// A build makes a building generation of a projection the live one. Readers see a
// complete collection at any moment. One pod, the coordinator, holds the lease of the
// pipeline ([CoordinatorLease]) and makes the steps of all builds:
//
//	             shadow collection made,       all alive pods serve it,
//	             job build done                job sweep done
//	building ────────────────────▶ catching up ────────────────▶ verifying ◀─┐
//	   │                              ▲   │                       │  │  │    │ repaired once, only behind,
//	   │      a pod does not serve it └───┼───────────────────────┘  │  └────┘ or held back before
//	   │                                  │                          │ nothing found
//	   │ a job fails, or is cancelled     │                          ▼
//	   └──────────────▶ failed ◀──────────┴── still found ─────── promoting
//	                                                              │   ▲ │ all have paused:
//	                       a pod does not pause in time           │   │ │ rename, write the entry
//	                                                              ▼   │ ▼
//	                                                           verifying  live
//
// The state is in the catalog. Each step first checks what exists, and can be repeated. So
// a coordinator that is killed at any point leaves nothing that stops its successor.
//
// # A late coordinator
//
// A coordinator that was stopped for longer than its lease continues in the middle of a step.
// Its writes to the catalog name the revision that it read. If its successor has written the
// entry, these writes match nothing. Otherwise their content is still right. It can repeat three
// other things: create jobs under the ids that they already have, remove data of a generation
// whose number is never used again, and rename.
//
// # Promotion
//
// Before the pause, the coordinator checks what the promotion would destroy. If the new collection
// is gone, the build fails. If the collection that it replaces has documents that no projector
// has written, the promotion waits. It also waits if the event store has no events of some read
// models, which the new generation cannot have (--allow-missing). Documents that are written
// after the check has passed their _id are not found: it reads the whole collection, and the rename
// follows within a minute. A coordinator that takes a promotion over checks again.
//
// The live stream settles an event when both generations have it, and from the state catching up
// on, the live generation is neither swept nor repaired. So after a promotion readers lack at
// most events whose messages are not settled (package engine).
//
// What has changed in the layout of the live collection is copied. An index is then built on
// a full collection, which can take long. So the check and the copy run beside the steps of other
// builds. They are repeated if the promotion does not begin within a minute after their end. A
// check that has found something is repeated after ten times its duration, but at least a minute.
//
// All pods read the whole catalog, so they read it often only while a promotion is announced or
// runs. The coordinator announces it some seconds before the pause: so every pod pauses at once, and
// the pause is short.
//
// From the pause to the new entry, a promotion is one step: no other build is driven meanwhile, so
// the writes of each projection are paused only for its own promotion.
//
//	shadow ──rename──▶ shadow.promotion-<epoch> ──rename, dropTarget──▶ the readers' name
//
// The source of the second rename has a name that only this coordinator uses: a successor
// first moves the collection to its own name. So a late coordinator finds nothing to
// rename, and no rename happens twice. No write is lost between the renames, because every
// alive pod has paused the projection's writes and has recorded that in the registry. Pods
// continue when they see the entry in which the generation is live. If a pod does not pause in
// time, the coordinator that has begun the promotion withdraws it. Its successor cannot, because a
// late coordinator may still rename: it gives the promotion a token of its own, for which the pods
// pause again, and completes it.
//
// # Garbage
//
// The data of a generation that was superseded, cancelled or replaced are removed as soon
// as no alive pod serves it, and again after an hour, because a stopped pod may have
// written some when it continued.
//
// # Shadow collections
//
// A generation is built in a collection of its own, the shadow, with the layout of the live
// one ([Shadows]). Each function first reads what exists, and can be repeated. Collections are
// identified by their UUIDs,
// because a rename keeps the UUID and a name can be used again.
//
// The shadow of a sharded collection gets its shard key, and a rename keeps that. MongoDB
// refuses a rename over a collection with zones, so a build waits until an operator has
// removed them.
//
// # Owners
//
// Each name that two pipelines could share belongs to one of them: a
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
// it, so that a misspelt subscription owns nothing. [CheckNames] finds conflicts before that.
//
// The owner of a collection names its projection too, so a collection belongs to one projection
// for good. An owner is never removed automatically, because read models outlive their
// projector: an operator releases it, or drops the projection.
package catalog
