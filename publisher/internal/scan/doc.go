// Package scan reads the whole event store, aggregate by aggregate. The publisher uses it
// to start from the beginning, and to recover if the history of the change stream is lost.
//
//	note the time T ──▶ walk {aggregateId, eventId} ──▶ stream from just after T
//
// # Why no event is missed between the scan and the stream
//
// T is the operation time of a majority read before the scan: the cluster time up to which
// that read saw everything. The scan reads with majority read concern and after T. It uses
// a causally consistent session for that, because a new primary could otherwise show an
// older state. So the scan sees every event at or before T, and the stream, which starts
// immediately after T, carries every event after T. Events that are inserted during the
// scan, ahead of its cursor, are read twice.
//
// # Why the order of an aggregate holds between scan and stream
//
// The events of an aggregate are inserted in the order of their ids, which is also their
// order in the index. While a cursor moves forward, its snapshots only become newer. So the
// cursor never reads an event without the events before it: what it reads of an aggregate
// is the prefix 1…k. The stream then starts after T, which is before k+1 was inserted,
// because the scan would have read it otherwise. It repeats some of 1…k and continues with
// k+1. First occurrences are in order, and repeats are harmless.
//
// During a long scan, the publisher follows the stream from time to time for the aggregates
// that are already scanned. It leaves the events of the other aggregates to the scan, which
// therefore reads after the cluster time of the last such event. The same argument holds
// for each part: what is read of an aggregate is a prefix, and the stream continues after
// it.
//
// The same holds if another process continues the scan from a position up to which
// everything was published: it repeats from there, in order.
package scan
