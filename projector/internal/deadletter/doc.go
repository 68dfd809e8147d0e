// Package deadletter counts the messages in the subscription's dead-letter queue. A
// message goes there when its event parks an aggregate, when it is not an event, or when
// the broker has delivered it too often. No service reads that queue, so an alert on its
// depth must tell an operator about the messages.
//
// # What is counted
//
// A [Counter] peeks at the queue: peeking needs only the right to listen, locks nothing and
// changes no delivery count. The broker's own number is in the subscription's runtime
// properties, but reading them needs the right to manage the namespace, which a projector
// does not have. A count ends at [Options.Limit] messages or [Options.LimitBytes], so it is exact
// for the few messages that there should be, and "at least" for more.
//
// Every process counts the whole queue. Use the largest of their numbers.
//
// # What it costs
//
// An empty queue costs one request. Peeking transfers whole messages, so a page has as
// many messages as fit into pageBytes by the size of those before; the first page has
// one. Counting has a connection of its own: a write that misses its deadline closes
// the connection, and with it all sessions that are on it.
//
// # When counting fails
//
// The last number is reported for three intervals, and for at least a minute. Then the
// metric is absent: neither a stale number nor 0.
package deadletter
