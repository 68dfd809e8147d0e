// Package rebuild makes a building generation of a projection the live one. Readers see a
// complete collection at any moment. One pod, the coordinator, holds a lease on the
// projection's catalog entry and makes the steps:
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
// a coordinator that is killed at any point leaves nothing that stops its successor. A model
// test kills and stops coordinators and pods between any two operations (model_test.go).
//
// # A late coordinator
//
// A coordinator that was stopped for longer than its lease continues in the middle of a
// step. Its writes to the catalog name its epoch and the revision that it read, and match
// nothing. It can repeat three other things: create jobs under the ids that they already
// have, remove data of a generation whose number is never used again, and rename.
//
// # Promotion
//
// Before the pause, the coordinator checks what the promotion would destroy. If the new collection
// is gone, the build fails. If the collection that it replaces has documents that no projector
// has written, the promotion waits. It also waits if the event store has no events of some read
// models, which the new generation cannot have (--allow-missing). Documents that are written
// between this check and the rename, within seconds, are not found.
//
// The live stream settles an event when both generations have it, and the live one is neither
// swept nor repaired from the catching up on. So after a promotion readers lack at most events
// whose messages are not settled (package engine).
//
// What has changed in the layout of the live collection is copied. An index is then built on
// a full collection, which may take longer than the coordinator's lease. So the copy runs
// beside the steps that renew the lease. If it took longer than a minute, the layouts are
// compared again before the promotion.
//
//	shadow ──rename──▶ shadow.promotion-<epoch> ──rename, dropTarget──▶ the readers' name
//
// The source of the second rename has a name that only this coordinator uses: a successor
// first moves the collection to its own name. So a late coordinator finds nothing to
// rename, and no rename happens twice. No write is lost between the renames, because every
// alive pod has paused the projection's writes and has recorded that in the registry. Pods
// continue when they see the entry in which the generation is live. Before the first rename
// the coordinator records it in the entry. Until then it, or its successor, withdraws the
// promotion if a pod does not pause in time. Afterwards nobody can, because a late coordinator
// may still rename.
//
// # Garbage
//
// The data of a generation that was superseded, cancelled or replaced are removed as soon
// as no alive pod serves it, and again after an hour, because a stopped pod may have
// written some when it continued. Shadow collections that no entry names are dropped an
// hour after they were first seen.
package rebuild
