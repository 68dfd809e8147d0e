// Package eventstore reads the event store for both services. The publisher uses it to scan
// the store. The projector uses it to repair gaps, to redeem claim checks, and to fold and
// verify read models.
//
//	Events   the events of a range, in the order of the index {aggregateId, eventId}
//	Heads    the first and the last event of each aggregate of a range
//	Split    boundaries that divide the store into ranges of about equal work
//	Missing  some events of one aggregate
//	Whole    one event
//	Sample   the oldest and the newest events
//	Types    the types of the newest events
//
// All aggregates have ids of one type, because the string "42" and the integer 42 would share
// messages, a session and a read model. [Reader.LearnIDs] takes the type of the oldest readable
// event, and no service publishes or folds events with ids of another type.
//
// Every read goes to the primary and has majority read concern, whatever the connection
// string says.
//
// # The index
//
// Ranges are bounds of the index {aggregateId: 1, eventId: 1} (min, max and hint), not
// filters. A comparison in a filter matches one BSON type only, so in a store whose
// aggregate ids are partly strings and partly ObjectIds it would miss one of the types.
// Without the index, opening a range fails with [ErrIndex], because the server would sort
// the whole store in memory for each page.
//
// The events of an aggregate are inserted in the order of their ids, which is also their
// order in the index. While a cursor moves forward, its snapshots only become newer. So the
// cursor never reads an event without the events before it: what it reads of an aggregate
// is a prefix of the aggregate's history. Through a mongos that holds only if the shard key
// keeps the events of an aggregate together: mongos merges the shards in the order of the
// index, but has read each at another time.
//
// # Memory
//
// A range is read in pages. A cursor holds one reply of the server (at most 16 MiB) and one
// page. The memory of Split and Missing is bounded as their comments say.
package eventstore
