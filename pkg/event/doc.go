// Package event is the contract between the event store, the topic and the read models. It
// defines the fields of an event, its keys, and its form in a message. Both services share
// it, and they share nothing else about events.
//
//	source document ──Reader──▶ Event ──Encoder──▶ Message ──topic──▶ body ──DecodeBody──▶ document ──Reader──▶ Event
//
// A [Reader] reads the fields of a document in place, a few of which are keys:
//
//	aggregateId  string, ObjectId (its hex), UUID (8-4-4-4-12), integer (decimal)
//	eventId      integer, 1 to 2^63-1
//	eventType    string
//
// An integer is an int32, an int64 or a whole double. aggregateType, timestamp, payload and
// metadata may be absent. An ambiguous timestamp, such as a number, counts as absent. An event that breaks these rules is a [ContractError] with a [Reason]. The error
// is permanent.
//
// An [Encoder] makes the message of an event. The MessageId is "<aggregateId>/<eventId>",
// because event ids repeat across aggregates: with the event id alone, duplicate detection
// would drop events of other aggregates. SessionId and PartitionKey are the session key: the
// aggregate id, or a bucket of its hash ([SessionKeys]). Buckets are for many short-lived
// aggregates, because a session costs several round trips from its accept to its release. An
// id that is longer than Service Bus allows is replaced by its hash ([MessageID]).
//
// The body is the whole document, in relaxed Extended JSON or in BSON. A document that
// Extended JSON cannot represent exactly is sent as BSON in both cases, so a consumer must
// look at the content type. An integer that a double cannot hold is {"$numberLong": "…"}.
// There is one exception to exactness. Relaxed Extended JSON does not
// distinguish the widths of integers, because plain numbers are readable for every consumer.
// So [DecodeBody] gives every integer 64 bits, and gives all NaN values one form. [Canonical]
// does the same for an event from the event store, after a gap, by a claim check or in a
// rebuild. So a replay gives the same bytes as the live read model.
//
// Both codecs work on bytes, without reflection, because each event passes both. The
// driver's take much longer: for an event of 436 bytes, in BenchmarkEncode and
// BenchmarkDecodeBody of one run (the best of 12, 2 cores of an Intel Xeon),
//
//	                 this package             the driver
//	to JSON          2.0 µs,   4 allocations   13.0 µs, 158 allocations
//	from JSON        2.3 µs,   3 allocations   21.5 µs, 239 allocations
//
// A projector needs about 60 µs of processor time for an event altogether, so the
// driver's decoder alone would cost it a third. This package is also stricter: it refuses
// JSON that the driver lets pass, and sends as BSON what JSON would not bring back.
// Properties hold both codecs equal to the driver's. testdata holds messages that must
// never change.
package event
