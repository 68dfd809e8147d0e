// Package deadletter counts the messages in the subscription's dead-letter queue, lists
// them and removes those that an operator chooses. A message goes there when it is not an
// event, when the broker has delivered it too often, or when it has expired. The sweeps of
// package history fold the events that the broker has moved there.
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
