// Package publish brings events to the topic: every event at least once, the
// events of a session key in order, different session keys in parallel.
//
// # From the stream to the broker
//
//	Submit ──▶ lane (one per session key in flight) ──▶ ready queue ──▶ worker ──▶ Sender
//	  │ bounded in events and bytes                       takes a batch   encodes    one AMQP
//	  ◀──────────────────── Acked(tickets) ◀──────────────────────────── sends      connection
//
// A lane exists only while its key has events in flight, so idle keys cost
// nothing, and there is no goroutine, timer or channel per key or per event. A
// lane is in one of three states:
//
//	          Submit              a worker takes its head
//	(none) ──────────▶ ready ─────────────────────────────▶ sending
//	   ▲                 ▲                                     │
//	   │ nothing queued  │ more queued meanwhile, or refused   │
//	   └─────────────────┴─────────────────────────────────────┘
//
// While a lane is sending, its later events wait in it: at most one
// unacknowledged send per session key, the order that the whole system stands on.
// What has queued up meanwhile leaves as the next batch.
//
// # Batches
//
// A broker message holds one event (off), many events of one key (session), or
// many events of many keys (mixed). See [Batching] for what a topic allows. In a
// mixed batch every key that it carries is sending until the broker has answered.
//
// The SDK copies the first message's MessageId, SessionId and PartitionKey into
// the envelope of a batch. On a topic that is not partitioned the envelope
// routes nothing, and each message inside keeps its own properties. A
// partitioned topic routes the whole envelope by its PartitionKey to one
// partition, hence one key per batch there; with duplicate detection it also
// compares the MessageIds, hence no batch there.
//
// # Failures
//
// A [Sender] says what went wrong as a [Fault]; the waits are decided here:
//
//	busy          nothing is sent for at least 2 s, then slower: the namespace is
//	              throttled, so all lanes are (see pace)
//	transient     the same batch again, after a backoff; halved from the third time
//	disconnected  the same batch again on another connection, while this one is
//	              replaced once for all its lanes; the broker may have the batch
//	              already, which repeats messages and loses no order
//	too large     half the batch; a single event becomes a claim check, or goes to
//	              the quarantine
//	refused batch the policy falls back to smaller batches, for the term
//	fatal         the term ends with the error
//
// What condemns an event or the term is believed of a connection that has ended only
// where others say the same: a link tells every later send why it ended.
//
// Repeats are harmless: what is repeated is a prefix of what is unacknowledged,
// so the first occurrences on the topic stay in order even where the broker
// processes an old connection's bytes late.
package publish
