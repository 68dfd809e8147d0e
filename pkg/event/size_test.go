package event_test

import (
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestSizeIsTheBodysLength(t *testing.T) {
	t.Parallel()
	for _, encoding := range []event.Encoding{event.EncodingJSON, event.EncodingBSON} {
		enc := encoder(t, encoding)
		rapid.Check(t, func(t *rapid.T) {
			doc := rawGen().Draw(t, "doc")
			if rapid.Bool().Draw(t, "damaged") && len(doc) > 5 {
				// Damage finds documents that JSON cannot represent, and malformed ones.
				at := rapid.IntRange(4, len(doc)-2).Draw(t, "at")
				doc[at] = rapid.Byte().Draw(t, "byte")
			}
			ev := &event.Event{Document: doc}
			m, encodeErr := enc.Encode(ev, 1)
			size, err := enc.Size(ev)
			switch {
			case encoding == event.EncodingBSON || encodeErr == nil:
				if err != nil || size != len(m.Body) {
					t.Fatalf("size %d (%v), the body has %d bytes", size, err, len(m.Body))
				}
			case err == nil || err.Error() != encodeErr.Error():
				t.Fatalf("size fails with %v, encode with %v", err, encodeErr)
			}
		})
	}
}

// crammed returns a document of about size bytes whose payload holds as many elements as
// possible, all with that type and value and an empty name.
func crammed(size int, kind bson.Type, value []byte) bson.Raw {
	element := append([]byte{byte(kind), 0}, value...)
	payload := make([]byte, 4, size+len(element))
	for len(payload) < size {
		payload = append(payload, element...)
	}
	payload = append(payload, 0)
	binary.LittleEndian.PutUint32(payload, uint32(len(payload)))
	doc := make([]byte, 4, len(payload)+16)
	doc = append(doc, byte(bson.TypeEmbeddedDocument), 'p', 0)
	doc = append(append(doc, payload...), 0)
	binary.LittleEndian.PutUint32(doc, uint32(len(doc)))
	return doc
}

// TestMeasuringNeedsNoMemory measures large documents of every BSON type. Encoding one of
// regular expressions would take 13 times its size.
func TestMeasuringNeedsNoMemory(t *testing.T) { // not parallel: it counts allocations
	const size = 1 << 20
	text := func(s string) []byte {
		value := binary.LittleEndian.AppendUint32(nil, uint32(len(s)+1))
		return append(append(value, s...), 0)
	}
	document := []byte{5, 0, 0, 0, 0}
	values := map[bson.Type][]byte{
		bson.TypeDouble:           {0, 0, 0, 0, 0, 0, 0xf0, 0xff}, // -Infinity, the longest
		bson.TypeString:           text(strings.Repeat("\x01", 1000)),
		bson.TypeEmbeddedDocument: document,
		bson.TypeBinary:           append([]byte{100, 0, 0, 0, 0}, make([]byte, 100)...),
		bson.TypeUndefined:        {},
		bson.TypeObjectID:         make([]byte, 12),
		bson.TypeBoolean:          {0},
		bson.TypeDateTime:         {0, 0, 0, 0, 0, 0, 0, 0x80},
		bson.TypeNull:             {},
		bson.TypeRegex:            {0, 0},
		bson.TypeDBPointer:        append(text(""), make([]byte, 12)...),
		bson.TypeJavaScript:       text(""),
		bson.TypeSymbol:           text(""),
		bson.TypeCodeWithScope:    append(append([]byte{14, 0, 0, 0}, text("")...), document...),
		bson.TypeInt32:            {0, 0, 0, 0x80},
		bson.TypeTimestamp:        {255, 255, 255, 255, 255, 255, 255, 255},
		bson.TypeInt64:            {0, 0, 0, 0, 0, 0, 0, 0x80},
		bson.TypeMinKey:           {},
		bson.TypeMaxKey:           {},
		bson.TypeArray:            document,
		// bson.TypeDecimal128 is measured by the driver, which allocates for each value.
	}
	enc := encoder(t, event.EncodingJSON)
	for kind, value := range values {
		ev := &event.Event{Document: crammed(size, kind, value)}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		measured, err := enc.Size(ev)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<10 {
			t.Errorf("%s: measuring %d bytes allocated %d", kind, size, allocated)
		}
		m, err := enc.Encode(ev, 1)
		if err != nil || m.ContentType != event.ContentTypeJSON || len(m.Body) != measured {
			t.Errorf("%s: measured %d bytes, encoded %d bytes of %s: %v", kind, measured, len(m.Body), m.ContentType, err)
		}
		if cap(m.Body) > len(m.Body) {
			t.Errorf("%s: the body of %d bytes occupies %d", kind, len(m.Body), cap(m.Body))
		}
	}
}

func TestClaimCheckIsBounded(t *testing.T) {
	t.Parallel()
	doc := order()
	for range 300 {
		doc = append(doc, bson.E{Key: "extra", Value: strings.Repeat("x", event.MaxKeyBytes)})
	}
	ev, err := reader(t).Read(testkit.Raw(doc))
	if err != nil {
		t.Fatal(err)
	}
	_, err = encoder(t, event.EncodingJSON).EncodeClaimCheck(&ev, 1)
	if broken, ok := errors.AsType[*event.ContractError](err); !ok || broken.Reason != event.ReasonTooLarge {
		t.Errorf("claim check of 300 large fields gives %v, want it too large", err)
	}
}
