// Package drain takes events out of a session-enabled subscription and hands them
// on in order, aggregate by aggregate.
//
// An [Acceptor] owns N slots over a few connections. A slot accepts the next
// session, drains it, releases it and goes on:
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
// The deliveries of an aggregate form a lane, ascending by eventId. The [Handler]
// sees a lane's events in that order, never two batches of a lane at once, and
// says of each whether it is done, poison, to be tried again or ahead of a gap.
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
// The consequences are:
//
//   - Lanes in trouble have separate calls, beside the calls of healthy lanes. After a
//     call that hung, its lanes are called again in smaller groups.
//   - At the end of the tenure, and when the process stops, lanes in trouble are given
//     back: their messages are not settled, and the session is closed, which counts no
//     delivery. The process that accepts the session next continues with them.
//   - A process remembers a failing aggregate beyond the session: in the next session
//     its time of failure continues, and its events are kept out of the calls of healthy
//     lanes from the start.
//   - That time runs only while the store takes writes of other aggregates, or refuses
//     one because of another document. An outage of the store parks no aggregate,
//     however long it lasts.
//   - A gap is identified by the missing event. The event that meets the gap can differ
//     from session to session, because the SDK can deliver a successor first. The time of
//     a gap goes on until the missing event is applied, over any number of sessions.
//   - A lane in trouble keeps a bounded number of deliveries. Further ones are
//     forgotten: they stay locked and come again after the session's release. If nothing
//     else can be written either, nothing is forgotten, and the broker is held back.
//
// A gap inside a session is either a message that the topic never got, or an order that
// the receiver of the SDK has changed, see below. The latter closes by itself within a
// round trip or two. So a lane with a gap is held for [Options.Hold] first; then the
// Handler is told to repair it from the event store.
//
// # Two receivers
//
// A [Receiver] comes from package sessions ([DialAMQP]) or from azservicebus
// ([Subscription]). Draining relies on neither for correctness:
//
//   - The result of a settlement decides nothing but metrics, and whether the session is
//     lost. What was not settled comes again and is a duplicate then. A session holds its
//     messages until they are settled, so the settlements that wait are bounded too. If the
//     broker answers none of them, those that wait are given up together, and the session
//     ends.
//   - The lock, and the local deadline before it, only keep two processes from working for
//     nothing. The guard on each write decides.
//   - An error of ReceiveMessages, or no message and no error before the context ends, is
//     the end of the session. The pump makes no further call.
//   - A renewal, a settlement and a Close have a context with a deadline. Close is called
//     from a goroutine that the Acceptor owns and waits for in bounded time.
//   - A connection that is lost ends its sessions, each by itself. It is replaced once for
//     all.
//
// # What the receiver of package sessions leaves
//
// It accepts in one round trip, several at a time on a connection, keeps the broker's
// order ([Accepted].InOrder), sends each settlement once, and closes in one round trip. Two
// things remain:
//
//   - The broker may refuse a settlement. It cannot be repeated on the link, so the message
//     stays locked until the session is released, and comes again.
//   - A link that is detached with messages on their way gives them back to the broker,
//     which counts no delivery.
//
// # What the receiver of the SDK does, and what follows
//
// Read in azservicebus v1.11.0 and measured:
//
//   - An accept takes about 15 round trips, ten of them one after the other on a
//     connection. So [Options.Connections] is larger with it.
//   - ReceiveMessages(n) that returns fewer than n leaves credit behind, and a goroutine of
//     the SDK releases what arrives until the next call: the broker then delivers the
//     successor first (receiver.go, newReleaserFunc). The pump therefore asks only for what
//     the inbox has room for, and as long as credit is out it has no reason to pause
//     between two calls. What the SDK releases all the same is a gap to the Handler. In an
//     increasing sequence, where it would be none, the pump asks for one message at a time,
//     which leaves no credit behind.
//   - (0, nil) before the context ends means a dead link, and the next call would silently
//     attach the same session again.
//   - A settlement may report success after the lock was lost, and an error makes the SDK
//     sleep 3.2 s or more before it attaches again. So settling has a context below that.
//   - The broker is told to wait for a session until the deadline of the context, and
//     go-amqp makes that deadline the one of a write (earlyDeadline).
//   - A fatal error on one receiver closes the connection that it shares.
//   - SessionReceiver.LockedUntil is not synchronised. It is read once, before any other
//     goroutine has the receiver; after that the deadline is computed.
//   - Close waits for the releaser without a context, up to a minute.
package drain
