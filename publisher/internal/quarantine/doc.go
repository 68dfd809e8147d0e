// Package quarantine keeps the events that cannot be published, with the reason. No event
// is skipped without a record.
//
// A record of the collection quarantine, in the database of the state:
//
//	{ _id: {stream: "events", document: <_id of the event in the store>},
//	  reason: "missing_event_id", field: "eventId", detail: "…",
//	  aggregateId: "user-7", eventId: 3,         as far as they could be read
//	  token: {_data: "…"},                       the position just after it in the stream
//	  event: { … },                              the whole document, or
//	  eventOmitted: true,                        if it does not fit into a record, or if the
//	                                             server refuses the record because of it
//	  epoch: 4, firstSeen: …, lastSeen: …, seen: 2 }
//
// Reason refused means that the event keeps the contract, but the topic did not accept its
// message; detail holds the broker's answers. The projectors read such an event from the
// event store when the next event of its aggregate shows the gap.
//
// If an event is read again, after a failover or by a scan, its record is updated: lastSeen
// and seen change, the rest stays. A [Store] never deletes records. An operator deletes
// them by commands, which use [Records], when the event has been dealt with.
//
// A broken event occupies its place in the unique index {aggregateId, eventId}, so a
// corrected one cannot be inserted beside it. The broken one was never published, and no
// projection applies it. So it can be corrected in place, under its _id, and then published
// by a command.
package quarantine
