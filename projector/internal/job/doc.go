// Package job keeps long-running work on a projection's history: building a generation,
// sweeping aggregates that are behind, verifying. A job is split into ranges, which the
// runners of any number of processes lease, work on and finish. Jobs are in the collection
// jobs of the state database, and their ranges in job_ranges.
//
//	                Plan                 last range finished
//	Create ──▶ planning ──────▶ running ──────────────────────▶ done
//	              │                                              ▲
//	              └──────────── Plan gave no ranges ─────────────┘
//
//	planning, running ── a worker's permanent error ──▶ failed
//	planning, running ── Cancel, Supersede ──▶ cancelled
//
// # Ranges
//
//	         Claim: epoch+1               Save, Keep
//	open ─────────────────────▶ leased ◀────────────┐
//	  ▲                          │ │ │ └────────────┘
//	  │  given back, or expired  │ │ └──▶ finished
//	  └──────────────────────────┘ └────▶ open: Claim by another process
//
// A claim is a lease, with an epoch (package lease). A process that lost its range, for
// example because it was stopped for longer than its lease, changes nothing any more: it
// gets [ErrLost].
//
// A save stores the position and the counts of the whole range so far, not a difference.
// So a save that is repeated changes nothing, and what a lost holder had counted since
// its last save is counted by its successor, who starts from that save.
//
// The epoch of the job itself counts the attempts to plan it. Ranges have the epoch of
// their plan, and ranges of an earlier plan are ignored. The ranges of a plan are stored
// before the plan. If the planner gets an error, the plan may be stored nevertheless, so
// the planner leaves the ranges. The next plan, or the end of the job, deletes them.
//
// # Small jobs
//
// Storing, claiming and finishing ranges costs more than the work of a small job. So the
// process that plans a job whose work is small does it under the claim of the planning, and
// ends the job.
//
// # No job blocks another
//
// A [Runner] works on a bounded number of ranges. It asks the active jobs in turn, and
// takes one range of each. It asks only for kinds that its process has a [Worker] for, so a
// job of another kind waits for a process that has one. It claims nothing of a job that its
// process cannot work on. If that changes after the claim, the worker returns [ErrNotHere], and
// the range is open again after a second. Jobs that have ended are not read, because an index
// selects the active ones. The last 20 of each kind and projection are kept, and the last one that is
// done.
package job
