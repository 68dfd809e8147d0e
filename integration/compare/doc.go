// Package compare runs programs that carry events out of MongoDB through the same
// scenarios: Penstock's publisher, a loop that handles one event after the other, and other
// projects whose executables are named. It reports how fast they are, what they cost, and
// what a crash loses, repeats or reorders.
//
//	Run ──▶ contender ──▶ scenario ──▶ course (databases of its own, the contender's sink)
//	                                     ├─ the contender as a process, killed and restarted
//	                                     └─ arrivals, compared with the stored events
//
// Run it with `make compare`; docs/comparison.md explains the table.
package compare
