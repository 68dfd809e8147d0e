package event

import (
	"errors"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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

// The content types of the encodings.
const (
	ContentTypeJSON = "application/json"
	ContentTypeBSON = "application/bson"
)

// Encoder makes messages of events. It is immutable and safe for concurrent use.
type Encoder struct {
	encoding Encoding
	sessions SessionKeys
	source   string
}

// NewEncoder makes an encoder of that encoding and session key. An encoding that
// is not [EncodingBSON] is [EncodingJSON].
func NewEncoder(encoding Encoding, sessions SessionKeys) *Encoder {
	if encoding != EncodingBSON {
		encoding = EncodingJSON
	}
	return &Encoder{encoding: encoding, sessions: sessions}
}

// WithSource gives an encoder whose messages are CloudEvents of that source, a
// URI-reference; an empty one makes no CloudEvents.
func (e *Encoder) WithSource(source string) *Encoder {
	return &Encoder{encoding: e.encoding, sessions: e.sessions, source: source}
}

// Encode makes the message of ev for the publisher's term epoch. A document that
// is no valid BSON is a [*ContractError]. A BSON body aliases ev.Document.
//
// A document that extended JSON cannot hold exactly travels as BSON in
// [EncodingJSON] too, and its content type says so: text that is not valid UTF-8,
// data that reads as an extended-JSON wrapper, such as {"$oid": 1}, options of a
// regular expression out of order, an array with keys of its own, a Decimal128 that
// has no text, 190 levels and more. The width of an integer is the exception: see
// [Canonical].
func (e *Encoder) Encode(ev *Event, epoch int64) (Message, error) {
	return e.message(ev, ev.Document, epoch)
}

// EncodeClaimCheck makes the message that stands for ev where the whole is too
// large for the topic: its body lacks the payload, the metadata and every other
// value above [MaxKeyBytes]. The keys, the timestamp and the trace context stay.
func (e *Encoder) EncodeClaimCheck(ev *Event, epoch int64) (Message, error) {
	doc, err := claim(ev.Document, ev.Payload, ev.Metadata)
	if err != nil {
		return Message{}, err
	}
	m, err := e.message(ev, doc, epoch)
	m.ClaimCheck = true
	return m, err
}

func (e *Encoder) message(ev *Event, doc bson.Raw, epoch int64) (Message, error) {
	m := Message{
		Keys:        ev.Keys,
		MessageID:   MessageID(ev.AggregateID, ev.EventID),
		SessionKey:  e.sessions.Key(ev.AggregateID),
		ContentType: ContentTypeBSON,
		Body:        doc,
		Epoch:       epoch,
		Source:      e.source,
		Timestamp:   ev.Timestamp,
	}
	m.TraceParent, m.TraceState = traceContext(ev.Metadata)
	if e.encoding == EncodingBSON {
		return m, nil
	}
	switch body, err := encodeJSON(doc); {
	case err == nil:
		m.ContentType, m.Body = ContentTypeJSON, body
	case !errors.Is(err, errInexact):
		return Message{}, err
	}
	return m, nil
}

// scratch holds buffers to write JSON into, so that a body is allocated once and in
// its size: bodies wait in the publisher's queues.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// maxScratch bounds the buffers that are kept.
const maxScratch = 1 << 20

func encodeJSON(doc []byte) ([]byte, error) {
	buffer := scratch.Get().(*[]byte)
	text, err := appendJSON((*buffer)[:0], doc)
	if cap(text) <= maxScratch {
		*buffer = text
		defer scratch.Put(buffer)
	}
	if err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(text)), text...), nil
}
