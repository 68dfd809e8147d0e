package event

import (
	"fmt"
	"unicode/utf8"

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
}

// NewEncoder makes an encoder of that encoding and session key. An encoding that
// is not [EncodingBSON] is [EncodingJSON].
func NewEncoder(encoding Encoding, sessions SessionKeys) *Encoder {
	if encoding != EncodingBSON {
		encoding = EncodingJSON
	}
	return &Encoder{encoding: encoding, sessions: sessions}
}

// Encode makes the message of ev for the publisher's term epoch. A document that
// is no valid BSON is a [*ContractError].
func (e *Encoder) Encode(ev *Event, epoch int64) (Message, error) {
	m := e.envelope(ev, epoch)
	var err error
	m.Body, err = e.body(ev.Document)
	return m, err
}

// EncodeClaimCheck makes the message that carries ev without its payload and
// metadata; its trace context stays.
func (e *Encoder) EncodeClaimCheck(ev *Event, epoch int64) (Message, error) {
	m := e.envelope(ev, epoch)
	m.ClaimCheck = true
	doc, err := without(ev.Document, ev.Payload, ev.Metadata)
	if err != nil {
		return m, err
	}
	m.Body, err = e.body(doc)
	return m, err
}

func (e *Encoder) envelope(ev *Event, epoch int64) Message {
	m := Message{
		Keys:        ev.Keys,
		MessageID:   MessageID(ev.AggregateID, ev.EventID),
		SessionKey:  e.sessions.Key(ev.AggregateID),
		ContentType: ContentTypeJSON,
		Epoch:       epoch,
	}
	if e.encoding == EncodingBSON {
		m.ContentType = ContentTypeBSON
	}
	m.TraceParent, m.TraceState = traceContext(ev.Metadata)
	return m
}

func (e *Encoder) body(doc bson.Raw) ([]byte, error) {
	if e.encoding == EncodingBSON {
		return doc, nil
	}
	b, err := bson.MarshalExtJSON(doc, false, false)
	if err != nil {
		return nil, &ContractError{Reason: ReasonMalformed, Detail: fmt.Sprintf("encode as extended JSON: %v", err)}
	}
	return b, nil
}

// Bounds of a trace context that is worth carrying: W3C says 55 characters for a
// traceparent and asks for at least 512 of a tracestate. What exceeds them is
// left out: it is not worth refusing an event.
const (
	maxTraceParent = 256
	maxTraceState  = 4 << 10
)

// traceContext reads the W3C trace context out of an event's metadata.
func traceContext(metadata bson.RawValue) (parent, state string) {
	if metadata.Type != bson.TypeEmbeddedDocument {
		return "", ""
	}
	rest, err := elements(metadata.Value)
	for err == nil && len(rest) > 0 {
		var name []byte
		var v bson.RawValue
		name, v, rest, err = nextElement(rest)
		if err != nil || v.Type != bson.TypeString {
			continue
		}
		switch string(name) {
		case PropertyTraceParent:
			parent = traceValue(stringBytes(v), maxTraceParent)
		case PropertyTraceState:
			state = traceValue(stringBytes(v), maxTraceState)
		}
	}
	if parent == "" {
		return "", ""
	}
	return parent, state
}

func traceValue(b []byte, most int) string {
	if len(b) > most || !utf8.Valid(b) {
		return ""
	}
	return string(b)
}
