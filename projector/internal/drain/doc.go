// Package drain receives events from a session-enabled subscription and passes them to a
// [Handler], in order for each aggregate.
//
// An [Acceptor] owns N slots over a few connections. A slot accepts the next
// session, drains it, releases it and continues:
//
//	    ┌───────────────────────────────────────────────────────────────┐
//	    ▼                                                               │
//	slot ──▶ accept ──▶ draining ──▶ finishing ──▶ settling ──▶ released ─┘
//	 ▲         │           │  no more credit; what was received is finished,
//	 └ none ───┘           │  unless the session waits for a store
//	   failed              └──▶ lost (lock or link): nothing more is
//	                            written or settled, the session is closed
//
// Within a session several goroutines overlap, so that neither the broker nor the
// database waits for the other:
//
//	pump ──▶ inbox ──▶ process ──▶ settle (64 at once)        keeper (renews)
//	receive, decode    order          complete, dead-letter
//	                    │  ▲
//	                    ▼  │ verdicts
//	                   one call of the handler
//
// # Order
//
// The deliveries of an aggregate are ascending by eventId (queue.go). The [Handler] gets an
// aggregate's events in that order, one call after the other. It returns a verdict for each
// event: done, retry, or deferred (the call had no room).
//
// # Trouble
//
// Aggregates wait only in the parked list. If the store answers and an aggregate cannot go on,
// the handler parks it, and its events are done: package history continues it from the event
// store. So a session never waits for one of its aggregates.
//
// If the store does not answer, the whole session waits. It settles nothing, and tries the same
// events again with a backoff, one call at a time, while the keeper renews the lock. The session
// passes the time of the first failure to the handler, so that the handler can distinguish an
// outage from an aggregate that cannot go on. At the end of the tenure, and when the process
// stops, a session that waits leaves its events to the broker: they are not settled, and closing
// the session counts no delivery.
//
// A message is missing because the topic never got it, or because the receiver of the SDK has
// changed the order, see below. The handler reads the missing event from the event store in
// the same call. If its message arrives later, it is a duplicate.
//
// # Two receivers
//
// A [Receiver] comes from package sessions ([DialAMQP]) or, with PENSTOCK_RECEIVER=sdk, from
// azservicebus ([Subscription]). Sending, administration, counting sessions and reading dead
// letters use azservicebus in both cases. The correctness of draining depends on neither:
//
//   - The result of a settlement affects only metrics and whether the session is lost.
//     The broker delivers a message that was not settled again, and its event is then a
//     duplicate. A session keeps its messages until they are settled, so the number of
//     waiting settlements is bounded. If the broker answers none of them, all waiting
//     ones are abandoned together, and the session ends.
//   - The lock, and the local deadline before its end, only keep two processes from
//     working on the same session, which would waste work. Correctness depends on the
//     guard of each write.
//   - If ReceiveMessages returns an error, or neither a message nor an error before the
//     context ends, the session ends. The pump makes no further call.
//   - Renewals, settlements and Close have a context with a deadline. A goroutine of the
//     Acceptor calls Close, and the Acceptor waits for it for a bounded time.
//   - If a connection is lost, each of its sessions ends on its own. The Acceptor
//     replaces the connection once.
//
// # Remaining limits of the receiver of package sessions
//
// The receiver accepts in one round trip, several sessions at a time on a connection, keeps
// the broker's order, sends each settlement once, and closes in one
// round trip. Two limits remain:
//
//   - The broker may refuse a settlement. It cannot be repeated on the link, so the message
//     stays locked until the session is released, and is delivered again.
//   - A link that is detached while messages are in flight returns them to the broker. Their
//     delivery count does not increase.
//
// # Behaviour of the SDK's receiver, and consequences
//
// Read in azservicebus v1.11.0 and measured:
//
//   - An accept takes about 15 round trips, ten of them one after the other on a
//     connection. So [Options.Connections] is larger with it.
//   - ReceiveMessages(n) that returns fewer than n leaves credit behind, and a goroutine of
//     the SDK releases messages that arrive until the next call. The broker then delivers
//     the successor first (receiver.go, newReleaserFunc). So the pump requests only as many
//     messages as the inbox has room for, and while credit is left it does not pause between
//     calls. If the SDK releases a message nevertheless, the Handler sees a gap.
//   - (0, nil) before the context ends means a dead link, and the next call would silently
//     attach the same session again. After a detach as busy or timed out, that goroutine uses a
//     core until the next call.
//   - A settlement may report success after the lock was lost, and after an error the SDK
//     sleeps 3.2 s or more before it attaches again. So the timeout of a settlement is shorter.
//   - The SDK asks the broker to wait for a session until the deadline of the context, and
//     go-amqp uses the same deadline for its writes (earlyDeadline).
//   - A fatal error on one receiver closes the connection that it shares.
//   - SessionReceiver.LockedUntil is not synchronised. It is read once, before any other
//     goroutine has the receiver; after that the deadline is computed.
//   - Close waits for the releaser without a context, up to a minute.
package drain
