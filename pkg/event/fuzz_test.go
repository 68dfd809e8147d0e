package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// FuzzRead checks that Read never panics, that its errors are ContractErrors, and that
// accepted documents have valid keys.
func FuzzRead(f *testing.F) {
	for _, doc := range []any{
		order(), bson.D{}, bson.D{{Key: "aggregateId", Value: bson.NewObjectID()}, {Key: "eventId", Value: 1.0}, {Key: "eventType", Value: "A"}},
		bson.D{{Key: "aggregateId", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}, {Key: "eventId", Value: int64(1)}, {Key: "eventType", Value: "A"}},
	} {
		f.Add([]byte(testkit.Raw(doc)))
	}
	reader := reader(f)
	enc := encoder(f, event.EncodingJSON)
	f.Fuzz(func(t *testing.T, doc []byte) {
		ev, err := reader.Read(doc)
		if err != nil {
			var broken *event.ContractError
			if !errors.As(err, &broken) || broken.Error() == "" {
				t.Fatalf("%v is no ContractError", err)
			}
			return
		}
		if ev.AggregateID == "" || ev.EventID < 1 || ev.EventType == "" || !utf8.ValidString(ev.AggregateID+ev.EventType+ev.AggregateType) {
			t.Fatalf("accepted %+v", ev.Keys)
		}
		for _, encode := range []func(*event.Event, int64) (event.Message, error){enc.Encode, enc.EncodeClaimCheck} {
			m, err := encode(&ev, 1)
			if err != nil {
				continue // Read does not look into the payload
			}
			if len(m.MessageID) > 128 || len(m.SessionKey) > 128 {
				t.Fatalf("ids too long: %+v", m)
			}
			back, err := event.DecodeBody(m.ContentType, m.Body)
			if err != nil {
				if m.ContentType == event.ContentTypeBSON {
					continue // it travelled unchecked
				}
				t.Fatalf("decode %s: %v", m.Body, err)
			}
			again, err := reader.Read(back)
			if err != nil || again.Keys != ev.Keys || !again.Timestamp.Equal(ev.Timestamp) {
				t.Fatalf("read back %+v, %v, want %+v", again.Keys, err, ev.Keys)
			}
		}
	})
}

// FuzzDecodeJSON checks that no JSON body causes a panic, and that an accepted body gives
// a valid event that equals the driver's.
func FuzzDecodeJSON(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"a":1,"b":[1.5,-2e10,null,true,{"c":"\u00fc\n"}]}`, `{"a":{"$oid":"0123456789abcdef01234567"}}`,
		`{"a":{"$date":"2020-01-01T00:00:00.123Z"},"b":{"$date":{"$numberLong":"-1"}}}`,
		`{"a":{"$binary":{"base64":"AAECAw==","subType":"04"}},"b":{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"}}`,
		`{"a":{"$code":"x","$scope":{"b":{"$numberInt":"1"}}},"c":{"$timestamp":{"t":1,"i":2}}}`,
		`{"a":{"$regularExpression":{"pattern":"a","options":"i"}},"b":{"$numberDecimal":"1.10"},"c":{"$minKey":1}}`,
		`{"a":{"$dbPointer":{"$ref":"a.b","$id":{"$oid":"0123456789abcdef01234567"}}},"b":{"$symbol":"s"},"c":{"$undefined":true}}`,
		`{"a":9223372036854775807,"b":-9223372036854775808,"c":9223372036854775808,"d":-0,"e":-0.0}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		doc, err := event.DecodeBody("application/json", body)
		if err != nil {
			if _, ok := errors.AsType[*event.ContractError](err); !ok {
				t.Fatalf("%v is no ContractError", err)
			}
			return
		}
		if err := doc.Validate(); err != nil {
			t.Fatalf("decoded %s into invalid BSON: %v", body, err)
		}
		if !json.Valid(body) {
			t.Fatalf("accepted what is no JSON: %s", body)
		}
		if strings.Contains(strings.ToLower(string(body)), `\ud`) {
			return // the driver reads half surrogate pairs in its own way
		}
		var want bson.Raw
		if err := bson.UnmarshalExtJSON(body, false, &want); err != nil {
			t.Fatalf("accepted %s, the driver says %v", body, err)
		}
		if want, err = event.Canonical(want); err != nil || !bytes.Equal(doc, want) {
			t.Fatalf("decoded %s as %s, the driver %s", body, doc, want)
		}
	})
}

// FuzzDecodeBSON checks that no BSON body causes a panic, and that an accepted body gives
// a valid event that can be encoded.
func FuzzDecodeBSON(f *testing.F) {
	f.Add([]byte(testkit.Raw(order())))
	f.Add([]byte(testkit.Raw(bson.D{{Key: "c", Value: bson.CodeWithScope{Code: "x", Scope: bson.D{{Key: "a", Value: 1}}}}})))
	enc := encoder(f, event.EncodingJSON)
	f.Fuzz(func(t *testing.T, body []byte) {
		doc, err := event.DecodeBody("application/bson", body)
		if err != nil {
			return
		}
		if err := doc.Validate(); err != nil {
			t.Fatalf("accepted invalid BSON %x: %v", body, err)
		}
		m, err := enc.Encode(&event.Event{Document: doc}, 1)
		if err != nil {
			t.Fatalf("encode %x: %v", body, err)
		}
		if _, err := event.DecodeBody(m.ContentType, m.Body); err != nil {
			t.Fatalf("decode what was encoded of %x: %v", body, err)
		}
	})
}
