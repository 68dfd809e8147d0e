// Package quarantine keeps the events that cannot be published, with the reason:
// nothing is skipped in silence.
//
// A record of the collection quarantine, in the database of the state:
//
//	{ _id: {stream: "events", document: <_id of the event in the store>},
//	  reason: "missing_event_id", field: "eventId", detail: "…",
//	  aggregateId: "user-7", eventId: 3,         as far as they could be read
//	  token: {_data: "…"},                       the position just after it in the stream
//	  event: { … },                              the whole document, or
//	  eventOmitted: true,                        where it would not fit into a record
//	  epoch: 4, firstSeen: …, lastSeen: …, seen: 2 }
//
// Reason refused means that the event keeps the contract and the topic did not accept
// its message; detail holds the broker's answers. The projectors read such an event from
// the event store when the next event of its aggregate shows the gap.
//
// An event that is read again, after a failover or by a scan, is the same record:
// lastSeen and seen change, the rest stays. A [Store] never deletes records: an operator
// does, by commands over [Records], once the event has been dealt with.
//
// A broken event holds its place in the unique index {aggregateId, eventId}, so a
// corrected one cannot be inserted beside it. Nobody has read the broken one: it was never
// published, and no projection applies it. So it is corrected in place, under its _id,
// and then published by a command.
package quarantine
