// Package rebuild takes a building generation of a projection to live, without a moment
// in which readers see less than a whole collection. One pod, the coordinator, holds a
// lease on the projection's catalog entry and makes the steps:
//
//	             shadow collection made,       all alive pods serve it,
//	             job build done                job sweep done
//	building ────────────────────▶ catching up ────────────────▶ verifying ◀─┐
//	   │                              ▲   │                       │  │  │    │ repaired once,
//	   │      a pod does not serve it └───┼───────────────────────┘  │  └────┘ or no longer parked
//	   │                                  │                          │ nothing found
//	   │ a job fails, or is cancelled     │                          ▼
//	   └──────────────▶ failed ◀──────────┴── still found ─────── promoting
//	                                                              │   ▲ │ all have paused:
//	                                           a pod does not     │   │ │ rename, write the entry
//	                                           pause in time      ▼   │ ▼
//	                                                           verifying  live
//
// The state is in the catalog. Each step can be repeated: it first looks what is there.
// So a coordinator that is killed at any point leaves nothing behind that its successor
// cannot go on from.
//
// # A late coordinator
//
// A coordinator that was stopped for longer than its lease wakes up in the middle of a
// step. Its writes to the catalog name its epoch and the revision it read, and match
// nothing. It can repeat three other things: create jobs under the ids that they have
// already, remove data of a generation whose number is never used again, and rename.
//
// # Promotion
//
//	shadow ──rename──▶ shadow.promotion-<epoch> ──rename, dropTarget──▶ the readers' name
//
// The source of the second rename is the coordinator's own: a successor moves the
// collection to its own name first. So a late coordinator finds nothing to rename, and
// none can rename twice. No write is lost between the renames, because every alive pod
// has paused the projection's writes and has said so in the registry; they go on when
// they see the entry in which the generation is live. Only the coordinator that began
// the pause, and has renamed nothing, may call it off: its successor cannot know what a
// late predecessor will still rename.
//
// # Garbage
//
// The data of a generation that was superseded, cancelled or replaced are removed as
// soon as no alive pod serves it, and again after an hour: a pod that was stopped may
// have written some when it woke up. Shadow collections that no entry names any more are
// dropped an hour after they were seen first.
package rebuild
