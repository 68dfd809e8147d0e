package event

import (
	"errors"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Encoding is the format of the event document in a message's body.
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

// Encoder encodes events as messages. It is immutable and safe for concurrent use.
type Encoder struct {
	encoding Encoding
	sessions SessionKeys
	source   string
}

// NewEncoder makes an encoder for an encoding and a kind of session key. An encoding that
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

// SessionKey is the session key of an aggregate's messages.
func (e *Encoder) SessionKey(aggregateID string) string { return e.sessions.Key(aggregateID) }

// Encode makes the message of ev for the publisher's term epoch. A document that is not
// valid BSON is a [*ContractError]. A BSON body aliases ev.Document.
//
// [EncodingJSON] sends a document as BSON, with the content type of BSON, if Extended JSON
// cannot represent the document exactly. Such documents have text that is not valid UTF-8,
// data that looks like a wrapper of Extended JSON, such as {"$oid": 1}, unsorted options of
// a regular expression, an array whose keys are not its indexes, a Decimal128 that has no
// text, or 190 or more levels. The width of an integer is the exception: see [Canonical].
func (e *Encoder) Encode(ev *Event, epoch int64) (Message, error) {
	return e.message(ev, ev.Document, epoch)
}

// EncodeClaimCheck makes the message that replaces the message of ev if that is too large
// for the topic. Its body lacks the payload, the metadata and every other value above
// [MaxKeyBytes]. The keys, the timestamp and the trace context stay.
func (e *Encoder) EncodeClaimCheck(ev *Event, epoch int64) (Message, error) {
	doc, err := claim(ev.Document, ev.Payload, ev.Metadata)
	if err != nil {
		return Message{}, err
	}
	m, err := e.message(ev, doc, epoch)
	m.ClaimCheck = true
	return m, err
}

// Size gives the length of the body that [Encoder.Encode] makes, or its error, without
// making it.
func (e *Encoder) Size(ev *Event) (int, error) {
	if e.encoding == EncodingBSON {
		return len(ev.Document), nil
	}
	switch size, err := jsonSize(ev.Document); {
	case err == nil:
		return size, nil
	case !errors.Is(err, errInexact):
		return 0, err
	}
	return len(ev.Document), nil
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

// scratch holds buffers for JSON, so that each body is one allocation of exactly its size:
// bodies wait in the publisher's queues.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

const (
	// maxScratch bounds the size of a buffer that is kept.
	maxScratch = 1 << 20
	// measured is the length above which a document is measured before it is encoded: no
	// shorter one exceeds maxScratch in JSON.
	measured = 64 << 10
)

func encodeJSON(doc []byte) ([]byte, error) {
	if len(doc) > measured {
		size, err := jsonSize(doc)
		if err != nil {
			return nil, err
		}
		return appendJSON(make([]byte, 0, size), doc)
	}
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
