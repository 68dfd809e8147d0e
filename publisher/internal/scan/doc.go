// Package scan reads the whole event store in the order of its aggregates: the
// start from the beginning, and the recovery where the change stream's history is
// lost.
//
//	note the time T ──▶ walk {aggregateId, eventId} ──▶ stream from just after T
//
// # Why nothing falls between the scan and the stream
//
// T is the operation time of a majority read before the scan: the cluster time up
// to which that read saw everything. The scan reads with majority read concern and
// after T (a causally consistent session; a new primary would otherwise be allowed
// to show less). So every event is either at or before T, and the scan sees it, or
// after T, and the stream that starts just after T carries it. Many are both: those that
// were inserted during the scan, before its cursor came by.
//
// # Why the order of an aggregate holds across the seam
//
// An aggregate's events are inserted in the order of their ids, and stand in that
// order in the index. A cursor that moves forward over it sees snapshots that only
// become newer, and so never an event without those before it: what it reads of an
// aggregate is the prefix 1…k. The stream then starts after T, which is before k+1
// unless the scan had it: it repeats some of 1…k and goes on with k+1. First
// occurrences are in order, and repeats are harmless.
//
// While a long scan is under way, the publisher follows the stream now and then for the
// part that is scanned. It leaves the events of the other part to the scan, which therefore
// reads after the cluster time of the last one that was left. The same argument holds for
// each part: what is read of an aggregate is a prefix, and the stream goes on behind it.
//
// The same holds where a scan is continued by another process from a position at
// or before which everything was published: it repeats from there, in order.
package scan
