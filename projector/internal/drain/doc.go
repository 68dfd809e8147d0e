// Package drain receives events from a session-enabled subscription and passes them to a
// [Handler], in order for each aggregate.
//
// An [Acceptor] owns N slots over a few connections. A slot accepts the next
// session, drains it, releases it and continues:
//
//	    ┌───────────────────────────────────────────────────────────────┐
//	    ▼                                                               │
//	slot ──▶ accept ──▶ draining ──▶ finishing ──▶ settling ──▶ released ─┘
//	 ▲         │           │  no more credit; healthy lanes are finished,
//	 └ none ───┘           │  lanes in trouble are given back
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
//	                   calls: one of healthy lanes, up to three of lanes in trouble
//
// # Order
//
// The deliveries of an aggregate form a lane, ascending by eventId. The [Handler] gets a
// lane's events in that order, and never two batches of a lane at once. It returns a
// verdict for each event: done, poison (it parked its aggregate), retry, or gap (an earlier
// event is missing).
//
// # Trouble
//
// A lane that cannot continue waits alone: no slot, call or session waits for it.
//
//	        done                      store failed            longer than ParkAfter
//	fresh ◀──────▶ in a call ──▶ retrying ────────────┐      (while the store answers)
//	  ▲                │          100 ms .. 5 s        ├──▶ giving up ──▶ done: parked
//	  └── predecessor ─┴──▶ gap ──────▶ repairing ─────┘      longer than GapTimeout
//	                        Hold       200 ms .. 5 s
//
// ParkAfter is PENSTOCK_PARK_AFTER, and GapTimeout is PENSTOCK_GAP_TIMEOUT.
//
// The consequences are:
//
//   - Lanes in trouble have separate calls, beside the calls of healthy lanes. After a
//     call that hung, its lanes are called again in smaller groups.
//   - At the end of the tenure, and when the process stops, lanes in trouble are given
//     back: their messages are not settled, and the session is closed, which counts no
//     delivery. The process that accepts the session next continues with them.
//   - A session in which nothing but lanes in trouble is left gives them back as soon as it
//     has tried them, if the free slots are few and the store takes writes of other
//     aggregates. So thousands of such sessions take turns, and hold no slot that another
//     session needs. A lane that will be given up next stays. If a session that has left is
//     accepted again quickly, no other one waits, and all stay for a while (turns.go).
//   - A process remembers a failing aggregate beyond the session: in the next session
//     its time of failure continues, and its events are kept out of the calls of healthy
//     lanes from the start.
//   - That time runs only while the store takes writes of other aggregates, or refuses
//     one because of another document. An outage of the store parks no aggregate,
//     however long it lasts.
//   - A gap is identified by the missing event. The event that meets the gap can differ
//     from session to session, because the SDK can deliver a successor first. The time of
//     a gap continues until the missing event is applied, over any number of sessions.
//   - A lane in trouble keeps a bounded number of deliveries. Further ones are
//     forgotten: they stay locked and come again after the session's release. If nothing
//     else can be written either, nothing is forgotten, and the broker is held back.
//
// A gap inside a session has one of two reasons: the topic never got a message, or the
// receiver of the SDK has changed the order, see below. In the second case the gap closes
// within a round trip or two. So a lane with a gap is held for [Options.Hold] first. After
// that the Handler repairs it from the event store.
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
// the broker's order ([Accepted].InOrder), sends each settlement once, and closes in one
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
//     attach the same session again.
//   - A settlement may report success after the lock was lost, and after an error the SDK
//     sleeps 3.2 s or more before it attaches again. So the timeout of a settlement is shorter.
//   - The SDK asks the broker to wait for a session until the deadline of the context, and
//     go-amqp uses the same deadline for its writes (earlyDeadline).
//   - A fatal error on one receiver closes the connection that it shares.
//   - SessionReceiver.LockedUntil is not synchronised. It is read once, before any other
//     goroutine has the receiver; after that the deadline is computed.
//   - Close waits for the releaser without a context, up to a minute.
package drain
