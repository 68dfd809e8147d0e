package changestream

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
)

// Token is a position in the sequence of all events.
type Token struct {
	TS bson.Timestamp
	// Event says that the token is at an event; otherwise it is before all events of its
	// cluster time.
	Event bool
	// Index is the event's place within a transaction.
	Index int32
	// Invalidate says that the token is at the invalidation after the event.
	Invalidate bool
	// UUID is the collection's UUID and Key the document key. Only tokens at events have
	// them.
	UUID [16]byte
	Key  []byte
	// encodedKey is Key in its encoded form. Only a parsed token has it.
	encodedKey []byte
}

// Compare compares the positions of two tokens.
func (t Token) Compare(u Token) int {
	return cmp.Or(
		oplog.Compare(t.TS, u.TS),
		compareBool(t.Event, u.Event),
		cmp.Compare(t.Index, u.Index),
		compareBool(t.Invalidate, u.Invalidate),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

const (
	tokenStart     = 0x82
	tokenEnd       = 0x04
	watermarkKind  = 0x29
	eventKind      = 0x2c
	invalidateKind = 0x2d
	watermarkSize  = 1 + 8 + 1 + 1
	eventSize      = 1 + 8 + 1 + 4 + 16 + 1
)

// watermark returns the token before all events at ts.
func watermark(ts bson.Timestamp) Token { return Token{TS: ts} }

const upperHex = "0123456789ABCDEF"

// appendData appends the text of _data.
func (t Token) appendData(dst []byte) []byte {
	var scratch [128]byte
	raw := append(scratch[:0], tokenStart)
	raw = binary.BigEndian.AppendUint32(raw, t.TS.T)
	raw = binary.BigEndian.AppendUint32(raw, t.TS.I)
	switch {
	case !t.Event:
		raw = append(raw, watermarkKind)
	default:
		kind := byte(eventKind)
		if t.Invalidate {
			kind = invalidateKind
		}
		raw = append(raw, kind)
		raw = binary.BigEndian.AppendUint32(raw, uint32(t.Index))
		raw = append(raw, t.UUID[:]...)
		raw = append(raw, t.encodedKey...)
		if t.Key != nil {
			id, _ := bsonraw.Lookup(t.Key, "_id")
			if key, err := bsonraw.AppendKey(raw, id); err == nil {
				raw = key
			}
		}
	}
	raw = append(raw, tokenEnd)
	for _, b := range raw {
		dst = append(dst, upperHex[b>>4], upperHex[b&15])
	}
	return dst
}

// Document returns {_data: …}.
func (t Token) Document() []byte {
	dst := make([]byte, 0, 256)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, byte(bsoncore.TypeString), '_', 'd', 'a', 't', 'a', 0, 0, 0, 0, 0)
	start := len(dst)
	dst = t.appendData(dst)
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst, uint32(len(dst)))
	return dst
}

// ParseToken parses a token document.
func ParseToken(v bsonraw.Value) (Token, error) {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return Token{}, mongoerr.New(mongoerr.TypeMismatch, "BSON field '$changeStream.resumeAfter' is the wrong type '%s', expected type 'object'", bsonraw.TypeName(v.Type))
	}
	data, _ := bsonraw.Lookup(v.Data, "_data")
	if data.Type != bsoncore.TypeString {
		return Token{}, mongoerr.New(40647, "Bad resume token: _data of missing or of wrong type. Expected string, got %s", bsonraw.Format(v))
	}
	raw, err := hex.DecodeString(strings.ToLower(string(bsonraw.Text(data))))
	if err != nil {
		return Token{}, mongoerr.New(mongoerr.InvalidResumeToken, "resume token string was not a valid hex string")
	}
	t, ok := decode(raw)
	if !ok {
		return Token{}, mongoerr.New(50811, "Invalid resume token: it cannot be decoded")
	}
	return t, nil
}

func decode(raw []byte) (t Token, ok bool) {
	if len(raw) < watermarkSize || raw[0] != tokenStart || raw[len(raw)-1] != tokenEnd {
		return Token{}, false
	}
	t.TS = bson.Timestamp{T: binary.BigEndian.Uint32(raw[1:]), I: binary.BigEndian.Uint32(raw[5:])}
	switch raw[9] {
	case watermarkKind:
		return t, len(raw) == watermarkSize
	case eventKind, invalidateKind:
		if len(raw) < eventSize {
			return Token{}, false
		}
		t.Event, t.Invalidate = true, raw[9] == invalidateKind
		t.Index = int32(binary.BigEndian.Uint32(raw[10:]))
		t.UUID = [16]byte(raw[14:30])
		t.encodedKey = bytes.Clone(raw[30 : len(raw)-1])
		return t, true
	}
	return Token{}, false
}
