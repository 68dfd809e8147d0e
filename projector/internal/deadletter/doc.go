// Package deadletter counts the messages in the subscription's dead-letter queue. A
// message goes there when its event parks an aggregate, when it is no event at all, or
// when the broker has delivered it too often. Nobody reads that queue by itself, so its
// depth is what an operator can be alerted by.
//
// # What is counted
//
// A [Counter] peeks at the queue: that takes no right but Listen, locks nothing and
// changes no delivery count. The broker's own number is in the subscription's runtime
// properties, which take the right to manage the namespace; a projector does not have
// it. A count ends at [Options.Limit] messages or [Options.LimitBytes], so it is exact
// for the few messages that there should be, and "at least" for more.
//
// Every process counts the whole queue, by itself: the largest of their numbers is the
// answer.
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
// The last number stands for three intervals, a minute at least, and then there is
// none: neither a stale number nor 0.
package deadletter
