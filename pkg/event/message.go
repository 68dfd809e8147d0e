package event

import "go.mongodb.org/mongo-driver/v2/bson"

// Message is an event as it travels over the topic, in no SDK's terms.
// SessionKey is both the SessionId and the PartitionKey.
type Message struct {
	Keys
	MessageID   string
	SessionKey  string
	ContentType string
	Body        []byte
	// Epoch is the publisher's term that sent it.
	Epoch int64
	// TraceParent and TraceState are the event's W3C trace context, from its
	// metadata; empty where it has none.
	TraceParent, TraceState string
	// ClaimCheck says that Body holds the event without its payload and metadata,
	// which were too large for the topic: the whole event is in the event store.
	ClaimCheck bool
}

// Properties are the application properties of m: the names that subscription
// rules filter on.
func (m *Message) Properties() map[string]any { panic("pending") }

// Encoder makes messages of events. It is immutable and safe for concurrent use.
type Encoder struct {
	encoding Encoding
	sessions SessionKeys
}

// NewEncoder makes an encoder of that encoding and session key.
func NewEncoder(encoding Encoding, sessions SessionKeys) *Encoder { panic("pending") }

// Encode makes the message of ev for the publisher's term epoch.
func (e *Encoder) Encode(ev *Event, epoch int64) (Message, error) { panic("pending") }

// EncodeClaimCheck makes the message that carries the keys of ev alone.
func (e *Encoder) EncodeClaimCheck(ev *Event, epoch int64) (Message, error) { panic("pending") }

// Encoding is how the event document stands in a message's body.
type Encoding string

// The encodings, by the names that configuration uses.
const (
	// EncodingJSON is relaxed MongoDB Extended JSON v2, content type
	// application/json.
	EncodingJSON Encoding = "json"
	// EncodingBSON is the document's own bytes, content type application/bson.
	EncodingBSON Encoding = "bson"
)

// DecodeBody gives the event document in a message's body. An unknown content
// type or a body that does not parse is a [*ContractError].
func DecodeBody(contentType string, body []byte) (bson.Raw, error) { panic("pending") }

// SessionMode says what shares a session.
type SessionMode string

// The modes, by the names that configuration uses.
const (
	// SessionPerAggregate gives each aggregate a session of its own.
	SessionPerAggregate SessionMode = "aggregate"
	// SessionPerBucket spreads the aggregates over a fixed number of sessions by
	// their hash.
	SessionPerBucket SessionMode = "bucket"
)

// SessionKeys makes session keys of aggregate ids. Make it with [NewSessionKeys].
type SessionKeys struct {
	mode    SessionMode
	buckets int
}

// NewSessionKeys makes the session keys of that mode. buckets counts only in
// mode bucket, and is at least 1 there.
func NewSessionKeys(mode SessionMode, buckets int) (SessionKeys, error) { panic("pending") }

// Key is the session key of an aggregate, at most 128 characters.
func (s SessionKeys) Key(aggregateID string) string { panic("pending") }

// MessageID is "<aggregateId>/<eventId>", or a stable hash of it where that
// exceeds the 128 characters of Service Bus.
func MessageID(aggregateID string, eventID int64) string { panic("pending") }

// Sequence says what a store promises of its event ids.
type Sequence string

// The sequences, by the names that configuration uses.
const (
	// SequenceStrict numbers the events of an aggregate 1, 2, 3, … without a hole:
	// a hole seen by the projector is a gap.
	SequenceStrict Sequence = "strict"
	// SequenceIncreasing only lets ids rise: a hole means nothing.
	SequenceIncreasing Sequence = "increasing"
)
