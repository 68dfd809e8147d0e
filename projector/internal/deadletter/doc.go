// Package deadletter counts the messages in the subscription's dead-letter queue, and
// removes those whose event has taken effect. A message goes there when its event parks an
// aggregate, when it is not an event, when the broker has delivered it too often, or when it
// has expired. An alert on the depth of the queue tells an operator about what stays.
//
// # What is healed
//
// A [Healer] looks at the messages of which the event store has the event. It has an
// [Applier] fold their aggregates, which brings back what the broker gave up. If then every
// read model has the event of a message, the message is removed. What is not an event, what
// somebody moved there by hand, and events of aggregates that are parked stay. A pass peeks
// at the first 1,000 messages (or 16 MiB), and locks messages only if one of them can be
// removed: so messages that stay do not get in the way of an operator's tools. If more than
// that stay at the front of the queue, those behind them are not looked at; their events
// are still folded, by the sweeps of package reconcile.
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
