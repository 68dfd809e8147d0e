// Package deadletter counts the messages in the subscription's dead-letter queue, and
// removes those whose event has taken effect. A message goes there when its event parks
// an aggregate, when it is not an event, when the broker has delivered it too often, or
// when it has expired. An alert on the depth of the queue reports the remaining messages
// to operators.
//
// # What is healed
//
// A [Healer] peeks at the messages and lets an [Applier] fold their aggregates from the
// event store. That applies the events that the broker did not deliver. If every read
// model then has the event of a message, the healer removes the message. Three kinds of
// messages stay: those that are not events, those that somebody moved to the queue by
// hand, and events of parked aggregates, also of discarded ones. A pass peeks at the first 1,000 messages (or 16
// MiB), and locks messages only if one of them can be removed. So the remaining messages
// are not locked while an operator's tools need them. If more than 1,000 messages remain
// at the front of the queue, the healer does not see those behind them. The sweeps of
// package reconcile fold their events nevertheless.
//
// Nothing is sent to the topic to repair a read model: a message cannot be sent to one
// subscription only, and it would arrive after the later events of its aggregate.
//
// # What is counted
//
// A [Counter] peeks at the queue: peeking needs only the right to listen, locks nothing
// and changes no delivery count. The broker's own number is in the subscription's runtime
// properties, but reading them needs the right to manage the namespace, which a projector
// does not have. A count ends at 250 messages or 16 MiB. So it is exact for a
// few messages, and a lower bound for more.
//
// Every process counts the whole queue. Use the largest of their numbers.
//
// # What it costs
//
// An empty queue costs one request. Peeking transfers whole messages. So the size of a
// page is estimated from the messages before, to fit into pageBytes; the first page has
// one message. Counting uses its own connection, because a write that misses its deadline
// closes the connection with all its sessions.
//
// # When counting fails
//
// The last number is reported for three intervals, and for at least a minute. Then the
// metric is absent, because a stale number or 0 would be wrong.
package deadletter
