// Package publish sends events to the topic: every event at least once, the events of a
// session key in order, different session keys in parallel.
//
// # From the stream to the broker
//
//	Submit ──▶ lane (one per session key in flight) ──▶ ready queue ──▶ worker ──▶ Sender
//	  │ bounded in events and bytes                       takes a batch   encodes    one AMQP
//	  ◀──────────────────── Acked(tickets) ◀──────────────────────────── sends      connection
//
// A lane exists only while its key has events in flight, so idle keys cost
// nothing, and there is no goroutine, timer or channel per key or per event. A
// lane is in one of four states:
//
//	         Submit               a worker takes its head
//	(none) ──────────▶ ready ───────────────────────────────▶ sending
//	   ▲                ▲  ▲                                   │  │
//	   │                │  └── more queued meanwhile, or busy ─┤  │ failed
//	   │                │ its setback's wait has ended         │  ▼
//	   │                └───────────────────────────────── waiting
//	   └── nothing queued ─────────────────────────────────────┘
//
// While a lane is sending, its later events wait in it: at most one
// unacknowledged send per session key, which keeps the order that the whole system needs.
// The events that have queued up meanwhile leave as the next batch.
//
// A worker never waits for a retry: the lane waits. A send that is unanswered for a second
// moves to a slot of the lanes that fail (see Retries). So failing keys do not slow down the
// others.
//
// # Batches
//
// A broker message holds one event (off), many events of one key (session), or
// many events of many keys (mixed). See [Batching] for what a topic allows. In a
// mixed batch every key that it carries is sending until the broker has answered.
//
// The SDK copies the first message's MessageId, SessionId and PartitionKey into the
// envelope of a batch. A topic that is not partitioned ignores them, and each message
// inside keeps its own properties. A partitioned topic routes the whole envelope by its
// PartitionKey to one partition, so a batch may have only one key. With duplicate detection
// it also compares the MessageIds of envelopes, so batches are not possible.
//
// # Memory
//
// The events in flight have a bound, in number and in bytes, and a large message is sent alone.
// At the bound Submit waits, so the stream is not read further. A key that is blocked leaves the
// others alone until its own events fill the bound.
//
// The checkpoint waits for the oldest event that is not acknowledged, while later ones are
// published: penstock_publisher_checkpoint_age_seconds and penstock_publisher_delayed_seconds
// grow. A restart publishes everything after that event again, in order, or scans the event
// store if the oplog no longer reaches back that far.
//
// # Failures
//
// A [Sender] says what went wrong as a [Fault]; the waits are decided here:
//
//	busy          nothing is sent for at least 2 s, then slower, because the namespace
//	              is throttled (see rateLimit); while the topic accepts most others, only
//	              the keys of the batch wait
//	transient     the same events again, after a backoff
//	disconnected  the same events again on another connection, while this one is
//	              replaced once for all its lanes; the broker may have the batch
//	              already, which repeats messages and loses no order
//	too large     half the batch; a single event becomes a claim check, or goes to
//	              the quarantine
//	refused       half the batch; a single event is sent again after a backoff, and goes to
//	              the quarantine after MaxAttempts of these
//	refused batch the policy falls back to smaller batches, for the term
//	fatal         the same events again; if it lasts, the term ends (see Availability)
//
// # Retries
//
// A lane whose send failed has a setback until its next event is on the topic or in the
// quarantine. It waits after each failure, the longer the more have failed in a row, and no
// other lane waits for it. If the topic had accepted nothing since the last failure, the wait
// ends as soon as the topic accepts any event.
//
// A lane is sent together with others until it was refused or has failed three times. Then it
// is sent alone: in batches and send slots apart from the lanes that do not fail. A batch that
// is refused explicitly, or that fails repeatedly while the topic accepts others, is halved
// until each event at fault is in a batch of its own.
//
// An event that the topic refuses explicitly MaxAttempts times in a batch of its own, and
// accepts others between these attempts, goes to the quarantine with the reasons, and its lane
// continues. Any other failure says nothing about the event: it waits, however long that
// lasts, and [Metrics.Delayed] names its key.
//
// Repeats are harmless. A repeat starts at the first unacknowledged event of its key, so
// the first occurrences on the topic stay in order even if the broker processes the bytes
// of an old connection late.
package publish
