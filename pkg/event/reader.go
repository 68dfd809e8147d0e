package event

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"
	"sync/atomic"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// field is the index of one of the contract's fields.
type field int

const (
	fieldAggregateID field = iota
	fieldAggregateType
	fieldEventID
	fieldEventType
	fieldTimestamp
	fieldPayload
	fieldMetadata
	fieldCount
)

// Reader reads events from source documents without decoding them. It is safe for
// concurrent use.
type Reader struct {
	names [fieldCount]string
	uuids UUIDRepresentation
	// first is the least event id.
	first int64
	// only is the kind of aggregate ids that is read; see Only.
	only atomic.Pointer[IDKind]
	// types are types that were read lately, by their hash: they are few and repeat.
	types [1024]atomic.Pointer[string]
}

// NewReader makes a reader for documents with the given field names, which [Fields.Check] has
// checked.
func NewReader(fields Fields) *Reader {
	return &Reader{uuids: fields.UUIDs, first: fields.FirstEventID, names: [fieldCount]string{
		fieldAggregateID:   fields.AggregateID,
		fieldAggregateType: fields.AggregateType,
		fieldEventID:       fields.EventID,
		fieldEventType:     fields.EventType,
		fieldTimestamp:     fields.Timestamp,
		fieldPayload:       fields.Payload,
		fieldMetadata:      fields.Metadata,
	}}
}

// Read reads the event in doc in one pass over its top-level elements. It does not read
// values nested in the payload. If a field is present twice, the first counts, as in the
// server. Null and undefined count as absent. An event that breaks the contract is a
// [*ContractError], and the result then has Document and each key that is valid.
func (r *Reader) Read(doc bson.Raw) (Event, error) {
	ev := Event{Document: doc}
	values, err := r.scan(doc)
	if err != nil {
		return ev, err
	}

	// Read every field before reporting the first problem, so that the quarantine record
	// has all keys that can be read.
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	note(r.readAggregateID(&ev, values[fieldAggregateID]))
	note(r.readEventID(&ev, values[fieldEventID]))
	text, err := r.readText(fieldEventType, values[fieldEventType], ReasonMissingEventType)
	ev.EventType = r.typeOf(text)
	note(err)
	text, err = r.readText(fieldAggregateType, values[fieldAggregateType], "")
	ev.AggregateType = r.typeOf(text)
	note(err)
	ev.readTimestamp(values[fieldTimestamp])
	ev.Payload, ev.Metadata = values[fieldPayload], values[fieldMetadata]
	return ev, first
}

// scan finds the contract's fields among the top-level elements of doc.
func (r *Reader) scan(doc bson.Raw) ([fieldCount]bson.RawValue, error) {
	var values [fieldCount]bson.RawValue
	rest, err := elements(doc)
	if err != nil {
		return values, err
	}
	for len(rest) > 0 {
		var name []byte
		var value bson.RawValue
		name, value, rest, err = nextElement(rest)
		if err != nil {
			return values, err
		}
		for f := range r.names {
			if string(name) != r.names[f] {
				continue
			}
			if values[f].Type == 0 && !absent(value.Type) {
				values[f] = value
			}
			break
		}
	}
	return values, nil
}

func absent(t bson.Type) bool { return t == bson.TypeNull || t == bson.TypeUndefined }

func (r *Reader) readAggregateID(ev *Event, v bson.RawValue) error {
	name := r.names[fieldAggregateID]
	ev.RawAggregateID = v
	switch v.Type {
	case 0, bson.TypeString:
		id, err := r.readText(fieldAggregateID, v, ReasonMissingAggregateID)
		if err != nil {
			return err
		}
		ev.AggregateID = string(id)
	case bson.TypeObjectID:
		ev.AggregateID = bson.ObjectID(v.Value).Hex()
	case bson.TypeBinary:
		subtype, uuid := v.Value[4], v.Value[5:]
		switch {
		case subtype == bson.TypeBinaryUUIDOld && !r.uuids.Ordered():
			return &ContractError{Reason: ReasonWrongType, Field: name, Detail: "older UUID (binary of subtype 3), whose order of bytes is unknown: add uuidRepresentation=csharpLegacy, javaLegacy or pythonLegacy to the connection string of the event store, as the program that writes the events does"}
		case subtype != bson.TypeBinaryUUID && subtype != bson.TypeBinaryUUIDOld:
			return &ContractError{Reason: ReasonWrongType, Field: name, Detail: fmt.Sprintf("binary of subtype %d: only a UUID (subtype 4, or 3 with the option uuidRepresentation) is a key", subtype)}
		case len(uuid) != 16:
			return &ContractError{Reason: ReasonMalformed, Field: name, Detail: fmt.Sprintf("UUID has %d bytes instead of 16", len(uuid))}
		case subtype == bson.TypeBinaryUUIDOld:
			ev.AggregateID = FormatUUID(r.uuids.Reorder([16]byte(uuid)))
		default:
			ev.AggregateID = FormatUUID([16]byte(uuid))
		}
	case bson.TypeInt32:
		ev.AggregateID = strconv.FormatInt(int64(int32(binary.LittleEndian.Uint32(v.Value))), 10)
	case bson.TypeInt64:
		ev.AggregateID = strconv.FormatInt(int64(binary.LittleEndian.Uint64(v.Value)), 10)
	case bson.TypeDouble:
		// Node.js stores an integer beyond 32 bits as a double.
		f := math.Float64frombits(binary.LittleEndian.Uint64(v.Value))
		if f != math.Trunc(f) || math.Abs(f) > maxSafeInteger {
			return &ContractError{Reason: ReasonOutOfRange, Field: name, Detail: strconv.FormatFloat(f, 'g', -1, 64) + " is not a whole number that a double holds exactly"}
		}
		ev.AggregateID = strconv.FormatInt(int64(f), 10)
	default:
		return wrongType(name, v.Type, "a string, ObjectId, UUID or integer")
	}
	return r.checkKind(v)
}

func (r *Reader) readEventID(ev *Event, v bson.RawValue) error {
	name := r.names[fieldEventID]
	var id int64
	switch v.Type {
	case 0:
		return &ContractError{Reason: ReasonMissingEventID, Field: name}
	case bson.TypeInt32:
		id = int64(int32(binary.LittleEndian.Uint32(v.Value)))
	case bson.TypeInt64:
		id = int64(binary.LittleEndian.Uint64(v.Value))
	case bson.TypeDouble:
		f := math.Float64frombits(binary.LittleEndian.Uint64(v.Value))
		// 2^63 is the smallest double that exceeds an int64.
		if f != math.Trunc(f) || f >= 1<<63 || f < float64(r.first) {
			return r.outOfRange(name, strconv.FormatFloat(f, 'g', -1, 64))
		}
		id = int64(f)
	default:
		return wrongType(name, v.Type, "an integer")
	}
	if id < r.first {
		return r.outOfRange(name, strconv.FormatInt(id, 10))
	}
	ev.EventID, ev.numbered = id, true
	return nil
}

// readText reads a string that becomes part of a message's keys. It may be absent or empty
// unless missing is the reason for that. It must be valid UTF-8 because AMQP requires it, and
// must not exceed MaxKeyBytes.
func (r *Reader) readText(f field, v bson.RawValue, missing Reason) ([]byte, error) {
	name := r.names[f]
	switch v.Type {
	case 0:
		if missing == "" {
			return nil, nil
		}
		return nil, &ContractError{Reason: missing, Field: name}
	case bson.TypeString:
	default:
		return nil, wrongType(name, v.Type, "a string")
	}
	s := stringBytes(v)
	switch {
	case len(s) == 0 && missing != "":
		return nil, &ContractError{Reason: missing, Field: name, Detail: "empty string"}
	case len(s) > MaxKeyBytes:
		return nil, &ContractError{Reason: ReasonOutOfRange, Field: name, Detail: fmt.Sprintf("%d bytes, at most %d are allowed", len(s), MaxKeyBytes)}
	case !utf8.Valid(s):
		return nil, &ContractError{Reason: ReasonMalformed, Field: name, Detail: fmt.Sprintf("%s is not valid UTF-8", quoted(s))}
	}
	return s, nil
}

// hashSeed is that of the places in Reader.types.
var hashSeed = maphash.MakeSeed()

// typeOf returns a text, without an allocation if it is one of the types that were read lately.
func (r *Reader) typeOf(text []byte) string {
	place := &r.types[maphash.Bytes(hashSeed, text)%uint64(len(r.types))]
	if known := place.Load(); known != nil && *known == string(text) {
		return *known
	}
	s := string(text)
	place.Store(&s)
	return s
}

func wrongType(name string, t bson.Type, want string) error {
	return &ContractError{Reason: ReasonWrongType, Field: name, Detail: fmt.Sprintf("%s, not %s", t, want)}
}

func (r *Reader) outOfRange(name, value string) error {
	detail := fmt.Sprintf("%s is not a whole number from %d to 2^63-1", value, r.first)
	if value == "0" {
		detail += "; if the ids of all aggregates begin at 0, set PENSTOCK_FIRST_EVENT_ID=0 for the publisher and the projector"
	}
	return &ContractError{Reason: ReasonOutOfRange, Field: name, Detail: detail}
}

// quoted quotes s for an error and truncates it if it is long.
func quoted(s []byte) string {
	const limit = 64
	if len(s) > limit {
		return strconv.Quote(string(s[:limit])) + "…"
	}
	return strconv.Quote(string(s))
}
