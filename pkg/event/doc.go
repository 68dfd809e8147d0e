// Package event is the contract between the event store, the topic and the read
// models: which fields an event has, what its keys are, and how it stands in a
// message. Both services share it and nothing else about events.
//
//	source document ──Reader──▶ Event ──Encoder──▶ Message ──topic──▶ body ──DecodeBody──▶ document ──Reader──▶ Event
//
// A [Reader] reads the fields of a document in place, a few of which are keys:
//
//	aggregateId  string, ObjectId (its hex), UUID (8-4-4-4-12), int32 or int64 (decimal)
//	eventId      int32, int64 or integral double, 1 to 2^63-1
//	eventType    string
//
// aggregateType, timestamp (a date or an RFC 3339 string), payload and metadata may
// be absent. What breaks this is a [ContractError] with a [Reason], and permanent.
//
// An [Encoder] gives the event its message: the MessageId is
// "<aggregateId>/<eventId>", the session key is the aggregate's or that of its
// bucket, and the body is the whole document in relaxed Extended JSON or in BSON.
// [DecodeBody] gives every integer 64 bits, because relaxed Extended JSON does not tell
// the widths apart; [Canonical] does the same to an event from the event store, so that
// an event is the same by whatever way it came.
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
