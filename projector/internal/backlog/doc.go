// Package backlog counts the sessions of the subscription that have messages, for
// an autoscaler: a session is drained by one process at a time, so their number,
// and not that of the messages, says how many processes can share the work.
//
// # What is counted
//
// A [Counter] lists the sessions by the SDK's session pager, which asks the
// subscription's management node (com.microsoft:get-message-sessions, a page of 100
// ids a request). That takes no right but Listen. Listed are sessions with active
// messages: those that wait, and those that some process holds and has not finished
// (a message that is locked is active still), but not the dead-letter queue. A
// session with a state is listed even without messages; the projector sets none.
// Sessions come and go while the pages are read, so the number is a good estimate,
// and no more.
//
// Every process counts the whole subscription, by itself: the largest of their
// numbers is the answer. The waits between two counts vary, so that processes which
// were started together do not ask together.
//
// # What it costs
//
// A page takes about ten round trips, for the SDK makes a claim and a link for each,
// and a request to the broker. A count reads no more pages than its limit needs.
// It has a connection of its own, which stays open from one count to the next: the
// SDK makes the accepts of a connection wait for each other's claims, and a write
// that misses its context's deadline closes the connection (go-amqp, conn.go), with
// all the sessions on it. Counting must not slow down draining, or cost it
// its connection.
//
// # When counting fails
//
// The last good number stands for three intervals, a minute at least; most trouble is
// over by then, and an autoscaler shall not jump at each hiccup. After that there is no number at all,
// neither a stale one, which would be a lie, nor 0, which would be a request to scale
// down. Whoever asks for the largest number of all processes is answered by those
// that can count.
package backlog
