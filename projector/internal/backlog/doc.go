// Package backlog counts the sessions of the subscription that have messages, for an
// autoscaler. One process at a time drains a session, so the number of sessions, not of
// messages, says how many processes can share the work.
//
// # What is counted
//
// A [Counter] lists the sessions by the SDK's session pager, which asks the subscription's
// management node (com.microsoft:get-message-sessions, a page of 100 ids for each request).
// This needs only the right Listen. The list has sessions with active messages: waiting
// messages, and messages that a process has locked and not completed. It does not include
// the dead-letter queue. A session with a state is listed even without messages; the
// projector sets none. Sessions change while the pages are read, so the number is an
// estimate.
//
// Every process counts the whole subscription. Use the largest of their numbers. The
// intervals between counts vary at random, so that processes which were started together
// do not count at the same time.
//
// # What it costs
//
// A page takes about ten round trips, because the SDK makes a claim and a link for each,
// and one request to the broker. A count reads no more pages than its limit needs. It uses
// a connection of its own. On a shared connection the accepts would wait for the claims of
// the count, and a write that misses its context's deadline closes the connection (go-amqp,
// conn.go) with all its sessions.
//
// # When counting fails
//
// The last number is reported for three intervals, at least one minute. Most failures are
// over by then, and the autoscaler should not react to each of them. After that no number
// is reported. An old number could be wrong, and 0 would mean to scale down. The maximum
// over all processes then comes from the processes that can count.
package backlog
