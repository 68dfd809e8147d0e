// Package eventstore is the one reader of the event store. The publisher scans it, and
// the projector repairs gaps, redeems claim checks, folds read models anew and verifies
// them with it.
//
//	Events   the events of a range, in the order of the index {aggregateId, eventId}
//	Heads    the first and the last event of each aggregate of a range
//	Split    boundaries that divide the store into ranges of about equal work
//	Missing  some events of one aggregate
//	Whole    one event
//	Sample   the oldest and the newest events
//
// Every read goes to the primary and sees what a majority holds, whatever the
// connection string says.
//
// # The index
//
// Ranges are read by the bounds of the index {aggregateId: 1, eventId: 1} (min, max and
// hint), not by a filter. A comparison in a filter matches one BSON type only. A store
// whose aggregate ids are partly strings and partly ObjectIds would be cut off between
// them. Without the index a range is refused ([ErrIndex]): a sort of the whole store in
// memory, for each page, would harm the source.
//
// An aggregate's events are inserted in the order of their ids, and stand in that order
// in the index. A cursor that moves forward over it sees snapshots that only become
// newer, and so never an event without those before it: what it reads of an aggregate
// is a prefix of its history. Through a mongos the same holds, whatever key the
// collection is sharded by: each shard walks its own index, and mongos merges the
// shards by the sort.
//
// # Memory
//
// A range is read in pages. A cursor holds one reply of the server (at most 16 MiB) and
// one page. Split and Missing hold what their bounds say.
package eventstore
