// Package sessions accepts the sessions of a subscription and receives, settles, renews
// and releases them, over github.com/Azure/go-amqp without azservicebus between. It is
// for consumers that accept many sessions: the SDK needs about 15 round trips for an
// accept, ten of them one after the other on a connection. This package needs one, or two
// if it has to begin an AMQP session first.
//
//	Connection ── Accept ──▶ Session ── ReceiveMessages, CompleteMessage, …, Close
//
// # One AMQP connection
//
//	Connection          connects at the first Accept, and again when the line is dead
//	└─ line             an open AMQP connection
//	   ├─ $cbs          claims: put when the line opens, renewed at half of their life
//	   ├─ $management   one pair of links that all sessions share, for renewals of locks
//	   └─ AMQP session  one for each held session; kept for the next one
//	      └─ link       attached with the session filter; its detach releases the session
//
// An accept is one attach. The broker answers when a session is free and has messages, or
// when the timeout in the attach has passed. An accept that is cancelled ends its AMQP
// session, which releases a session that the broker may have granted meanwhile. No message
// is lost by that, because the link has no credit yet.
//
// # What the SDK does, and what this package does instead
//
//   - The SDK releases messages that arrive between two calls of ReceiveMessages. Here
//     they wait for the next call, in order. Nothing is released while a session is held.
//   - The SDK reports a dead link as (0, nil) and attaches the session again at the next
//     call. Here ReceiveMessages returns the error of the link, and a session is never
//     attached again: it is lost.
//   - The SDK retries a settlement after seconds, and reports success for one that the
//     broker has refused. Here a settlement is sent once, and its error is the broker's.
//   - If the broker detaches one of the two management links, both are attached again at the
//     next request. Renewals that wait for a reply are repeated.
//   - A fatal error on one receiver of the SDK closes the connection. Here it ends its
//     own session only, unless the broker ended the connection.
//   - The SDK's Close can wait for a minute. Here Close takes one round trip and respects
//     its context.
//   - go-amqp uses the deadline of a context for the write to the socket, and a late
//     write closes the connection. The transport here ignores these deadlines and has a
//     timeout of its own.
//
// # What go-amqp forces
//
// Shares of the projector's CPU and allocations, from a profile of sessions of one
// aggregate with four events each (`make bench`, row projector/aggregates):
//
//   - A settlement is a disposition, and a goroutine that waits for the broker's answer,
//     for each message: 3 %. go-amqp (v1.7.0) has sendDisposition for a range, but exports
//     only calls for one message, which wait. With the settlement mode first they would not
//     wait, and a settlement that the broker refuses would be lost without an error.
//   - A link has two queues of 5,000 places, the session's window, which no option changes:
//     80 KB for each session that is accepted, half of all bytes that are allocated. To
//     allocate and clear them is 4 %, besides the collector's work.
//   - A frame passes three goroutines on its way in (connection, AMQP session, link): 20 %
//     with the decoding.
//
// # What remains
//
// A settlement that the broker refuses cannot be repeated on the link: the message stays
// locked until the session is released, and is delivered again. Messages are not settled
// through the management node after a link has ended; they are delivered again. A peer that
// sends nothing for a minute, not even the empty frames that the connection requests,
// counts as dead.
//
// The package has not run against Azure yet. Several receivers of a connection share one claim
// and one management link. The SDK for Go does not do that, but Microsoft's other SDKs do.
// Package contract of the module integration runs the same tests on this package and on the
// SDK's receiver, over the stand-in. With PENSTOCK_RECEIVER=sdk a projector uses the SDK's.
package sessions
