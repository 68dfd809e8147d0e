package event_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func encoder(tb testing.TB, encoding event.Encoding) *event.Encoder {
	tb.Helper()
	sessions := event.NewSessionKeys(event.SessionPerAggregate, 0)
	return event.NewEncoder(encoding, sessions)
}

// encodeJSON returns the JSON body of doc.
func encodeJSON(t interface {
	Helper()
	Fatalf(string, ...any)
}, enc *event.Encoder, doc bson.Raw,
) []byte {
	t.Helper()
	m, err := enc.Encode(&event.Event{Document: doc}, 1)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	if m.ContentType != event.ContentTypeJSON {
		t.Fatalf("encoded as %s", m.ContentType)
	}
	return m.Body
}

func TestJSONEqualsDriver(t *testing.T) {
	t.Parallel()
	enc := encoder(t, event.EncodingJSON)
	rapid.Check(t, func(t *rapid.T) {
		doc := rawGen().Draw(t, "doc")
		want, err := bson.MarshalExtJSON(wrapLongs(t, doc), false, false)
		if err != nil {
			t.Fatalf("driver: %v", err)
		}
		got := encodeJSON(t, enc, doc)
		if !bytes.Equal(got, want) {
			t.Fatalf("encoded\n%s\nthe driver\n%s", got, want)
		}
		if !json.Valid(got) {
			t.Fatalf("invalid JSON: %s", got)
		}
	})
}

func TestDecodeEqualsDriver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := rawGen().Draw(t, "doc")
		canonical := rapid.Bool().Draw(t, "canonical")
		body, err := bson.MarshalExtJSON(doc, canonical, rapid.Bool().Draw(t, "html"))
		if err != nil {
			t.Fatalf("driver: %v", err)
		}
		if rapid.Bool().Draw(t, "indent") {
			var indented bytes.Buffer
			if err := json.Indent(&indented, body, " ", "\t"); err != nil {
				t.Fatalf("indent: %v", err)
			}
			body = indented.Bytes()
		}
		var want bson.Raw
		if err := bson.UnmarshalExtJSON(body, false, &want); err != nil {
			t.Fatalf("driver: %v", err)
		}
		got, err := event.DecodeBody(event.ContentTypeJSON, body)
		if err != nil {
			t.Fatalf("decode %s: %v", body, err)
		}
		if want = widen(t, want); !bytes.Equal(got, want) {
			t.Fatalf("decoded %s\nas         %s\nthe driver %s", body, got, want)
		}
		if canonical {
			if want := widen(t, doc); !bytes.Equal(got, want) {
				t.Fatalf("canonical round trip\nof  %s\ngot %s", want, got)
			}
		}
	})
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := rawGen().Draw(t, "doc")
		for _, encoding := range []event.Encoding{event.EncodingJSON, event.EncodingBSON} {
			sessions := event.NewSessionKeys(event.SessionPerAggregate, 0)
			m, err := event.NewEncoder(encoding, sessions).Encode(&event.Event{Document: doc}, 1)
			if err != nil {
				t.Fatalf("encode: %v", err)
			}
			got, err := event.DecodeBody(m.ContentType, m.Body)
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			if want := widen(t, doc); !bytes.Equal(got, want) {
				t.Fatalf("%s round trip\nof  %s\ngot %s", encoding, want, got)
			}
		}
	})
}

// TestCanonicalEqualsDecoded checks that the canonical form of an event in the store
// equals the event that a consumer decodes.
func TestCanonicalEqualsDecoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := rawGen().Draw(t, "doc")
		before := bytes.Clone(doc)
		got, err := event.Canonical(doc)
		if err != nil {
			t.Fatalf("canonical: %v", err)
		}
		if want := widen(t, before); !bytes.Equal(got, want) {
			t.Fatalf("canonical form\nof  %s\nis  %s\nnot %s", before, got, want)
		}
		if !bytes.Equal(doc, before) {
			t.Fatal("the document itself was changed")
		}
		if &got[0] != &doc[0] && cap(got) != len(got) {
			t.Fatalf("%d bytes are allocated for %d", cap(got), len(got))
		}
		again, err := event.Canonical(got)
		if err != nil || &again[0] != &got[0] {
			t.Fatalf("a canonical document was copied: %v", err)
		}
	})
	if _, err := event.Canonical(bson.Raw{1, 2}); err == nil {
		t.Error("no BSON was taken")
	}
}

// TestIntegersThatADoubleCannotHoldAreWrapped checks that a reader that keeps numbers as
// doubles, such as JavaScript's, cannot change an integer without an error.
func TestIntegersThatADoubleCannotHoldAreWrapped(t *testing.T) {
	t.Parallel()
	enc := encoder(t, event.EncodingJSON)
	for n, want := range map[int64]string{
		1<<53 - 1:          `{"n":9007199254740991}`,
		-(1<<53 - 1):       `{"n":-9007199254740991}`,
		1 << 53:            `{"n":{"$numberLong":"9007199254740992"}}`,
		295953231447769117: `{"n":{"$numberLong":"295953231447769117"}}`,
		math.MinInt64:      `{"n":{"$numberLong":"-9223372036854775808"}}`,
	} {
		doc := testkit.Raw(bson.D{{Key: "n", Value: n}})
		body := encodeJSON(t, enc, doc)
		if string(body) != want {
			t.Errorf("%d is encoded as %s, want %s", n, body, want)
		}
		if back, err := event.DecodeBody(event.ContentTypeJSON, body); err != nil || !bytes.Equal(back, doc) {
			t.Errorf("%s is decoded as %s: %v", body, back, err)
		}
	}
}

// wrapLongs returns doc with the wrapper of extended JSON in the place of each integer that a
// double cannot hold.
func wrapLongs(t interface{ Fatalf(string, ...any) }, doc bson.Raw) bson.Raw {
	var d bson.D
	if err := bson.Unmarshal(doc, &d); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return testkit.Raw(mapValues(d, func(v any) any {
		if n, is := v.(int64); is && (n > 1<<53-1 || n < -(1<<53-1)) {
			return bson.D{{Key: "$numberLong", Value: strconv.FormatInt(n, 10)}}
		}
		return v
	}))
}

// widen returns doc with every int32 as an int64 and all NaN values as one, by means of
// the driver.
func widen(t interface{ Fatalf(string, ...any) }, doc bson.Raw) bson.Raw {
	var d bson.D
	if err := bson.Unmarshal(doc, &d); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return testkit.Raw(mapValues(d, func(v any) any {
		switch v := v.(type) {
		case int32:
			return int64(v)
		case float64:
			if math.IsNaN(v) {
				return math.Float64frombits(0x7ff8000000000000)
			}
		}
		return v
	}))
}

// mapValues returns v with change applied to each value in it that holds no others.
func mapValues(v any, change func(any) any) any {
	switch v := v.(type) {
	case bson.D:
		for i := range v {
			v[i].Value = mapValues(v[i].Value, change)
		}
		return v
	case bson.A:
		for i := range v {
			v[i] = mapValues(v[i], change)
		}
		return v
	case bson.CodeWithScope:
		v.Scope = mapValues(v.Scope, change)
		return v
	}
	return change(v)
}

// A document that extended JSON cannot represent exactly is sent as BSON.
func TestInexactDocumentsAreSentAsBSON(t *testing.T) {
	t.Parallel()
	deep := bson.D{}
	for range 200 {
		deep = bson.D{{Key: "d", Value: deep}}
	}
	for name, doc := range map[string]any{
		// The driver sorts the options and adds the length, so these documents are
		// written by hand.
		"unsorted regex options":        bson.Raw("\x0d\x00\x00\x00\x0bp\x00a\x00xi\x00\x00"),
		"old binary without its length": bson.Raw("\x13\x00\x00\x00\x05p\x00\x06\x00\x00\x00\x02abcdef\x00"),
		"short old binary":              bson.Raw("\x0f\x00\x00\x00\x05p\x00\x02\x00\x00\x00\x02ab\x00"),
		"keys of an array":              bson.Raw("\x18\x00\x00\x00\x04p\x00\x10\x00\x00\x00\x12" + "7\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		"payload of a decimal NaN":      bson.D{{Key: "p", Value: bson.NewDecimal128(0x7c00000000000000, 5)}},
		"negative decimal NaN":          bson.D{{Key: "p", Value: bson.NewDecimal128(0xfc00000000000000, 0)}},
		"huge coefficient":              bson.D{{Key: "p", Value: bson.NewDecimal128(0x3041ffffffffffff, 0xffffffffffffffff)}},
		"wrapper as data":               bson.D{{Key: "p", Value: bson.D{{Key: "$oid", Value: int64(5)}}}},
		"wrapper in an array":           bson.D{{Key: "p", Value: bson.A{bson.D{{Key: "$date", Value: "x"}}}}},
		"wrapper that looks right":      bson.D{{Key: "p", Value: bson.D{{Key: "$numberLong", Value: "5"}}}},
		"invalid UTF-8":                 bson.D{{Key: "p", Value: "a\xffb"}},
		"invalid UTF-8 in a key":        bson.D{{Key: "a\xff", Value: int64(1)}},
		"invalid UTF-8 in code":         bson.D{{Key: "p", Value: bson.JavaScript("\xc3")}},
		"deep":                          deep,
		"invalid UTF-8 in a symbol":     bson.D{{Key: "p", Value: bson.Symbol("\xed\xa0\x80")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := testkit.Raw(doc)
			m, err := encoder(t, event.EncodingJSON).Encode(&event.Event{Document: raw}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if m.ContentType != event.ContentTypeBSON || !bytes.Equal(m.Body, raw) {
				t.Fatalf("encoded as %s: %s", m.ContentType, m.Body)
			}
			if name == "deep" {
				return // too deep for any body, and for MongoDB
			}
			if got, err := event.DecodeBody(m.ContentType, m.Body); err != nil || !bytes.Equal(got, raw) {
				t.Fatalf("decoded %v, %v", got, err)
			}
		})
	}
}

func TestExactDocumentsRoundTrip(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		doc  bson.D
		want string // the JSON
	}{
		// At the top level and behind another key, a wrapper key is data, in both directions.
		"wrapper keys": {bson.D{
			{Key: "$oid", Value: "top"},
			{Key: "p", Value: bson.D{{Key: "a", Value: int64(1)}, {Key: "$date", Value: "x"}}},
		}, `{"$oid":"top","p":{"a":1,"$date":"x"}}`},
		// The driver reads and writes it without its second length.
		"empty old binary": {bson.D{{Key: "p", Value: bson.Binary{Subtype: 2}}}, `{"p":{"$binary":{"base64":"","subType":"02"}}}`},
		// The driver forgets to escape the namespace.
		"DBPointer": {
			bson.D{{Key: "p", Value: bson.DBPointer{DB: `a".b`}}},
			`{"p":{"$dbPointer":{"$ref":"a\".b","$id":{"$oid":"000000000000000000000000"}}}}`,
		},
	} {
		doc := testkit.Raw(test.doc)
		body := encodeJSON(t, encoder(t, event.EncodingJSON), doc)
		if got, err := event.DecodeBody("application/json", body); string(body) != test.want || err != nil || !bytes.Equal(got, doc) {
			t.Errorf("%s: encoded %s, decoded as %v, %v", name, body, got, err)
		}
	}
}

func TestEncodeRefusesMalformed(t *testing.T) {
	t.Parallel()
	good := testkit.Raw(bson.D{{Key: "a", Value: "text"}, {Key: "d", Value: bson.D{{Key: "b", Value: true}}}})
	enc := encoder(t, event.EncodingJSON)
	refused := 0
	for i := range good {
		for _, change := range []byte{0x01, 0x7f, 0xff} {
			bad := bytes.Clone(good)
			bad[i] ^= change
			_, err := enc.Encode(&event.Event{Document: bad}, 1)
			var broken *event.ContractError
			if err != nil && !errors.As(err, &broken) {
				t.Fatalf("byte %d: %v is no ContractError", i, err)
			}
			if err != nil {
				refused++
			}
		}
		if _, err := enc.Encode(&event.Event{Document: good[:i]}, 1); err == nil {
			t.Fatalf("cut at byte %d: encoded", i)
		}
	}
	if refused == 0 {
		t.Fatal("nothing was refused")
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000)
	deepArray := `{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}"
	for _, body := range []string{
		"", " ", "{", "}", "[]", "1", `"a"`, "null", `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{"a":1}}`, `{"a":1} x`,
		`{"a":01}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":-}`, `{"a":1e999}`, `{"a":tru}`, `{"a":nul`,
		`{"a":"` + "\x01" + `"}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\uZZZZ"}`, `{"a":"`, `{"a":"\`, "{\"a\":\"\xff\"}", "{\"\xff\":1}",
		`{"a\u0000b":1}`, `{"a":[1,]}`, `{"a":[1 2]}`, `{"a":{"$oid":"12"}}`, `{"a":{"$oid":5}}`, `{"a":{"$date":"yesterday"}}`,
		`{"a":{"$date":"2020-01-01T00:00:00Z","x":1}}`, `{"a":{"$binary":{"base64":"!","subType":"00"}}}`, `{"a":{"$binary":{"base64":""}}}`,
		`{"a":{"$numberLong":"x"}}`, `{"a":{"$numberDecimal":"x"}}`, `{"a":{"$regularExpression":{"pattern":"a\u0000","options":""}}}`,
		`{"a":{"$scope":{}}}`, deep, deepArray,
	} {
		doc, err := event.DecodeBody("application/json", []byte(body))
		var broken *event.ContractError
		if !errors.As(err, &broken) || broken.Reason != event.ReasonMalformed || doc != nil {
			t.Errorf("%.60s: got %v, %v", body, doc, err)
		}
	}
}

func TestDecodeContentType(t *testing.T) {
	t.Parallel()
	jsonBody, bsonBody := []byte(`{"a":1}`), testkit.Raw(bson.D{{Key: "a", Value: int64(1)}})
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON", " application/json "} {
		if doc, err := event.DecodeBody(contentType, jsonBody); err != nil || !bytes.Equal(doc, bsonBody) {
			t.Errorf("%q: %v, %v", contentType, doc, err)
		}
	}
	if doc, err := event.DecodeBody("application/bson", bsonBody); err != nil || &doc[0] != &bsonBody[0] {
		t.Errorf("BSON: %v, %v", doc, err)
	}
	for _, contentType := range []string{"", "text/plain", "application/xml", ";", "json"} {
		var broken *event.ContractError
		if _, err := event.DecodeBody(contentType, jsonBody); !errors.As(err, &broken) {
			t.Errorf("%q: %v", contentType, err)
		}
	}
	for name, body := range map[string][]byte{
		"trailing": append(bytes.Clone(bsonBody), 0),
		"cut":      bsonBody[:len(bsonBody)-1],
		"empty":    {},
		"boolean":  {9, 0, 0, 0, 8, 'a', 0, 2, 0},
	} {
		if _, err := event.DecodeBody("application/bson", body); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
}

// Deeply nested documents must not exhaust the stack.
func TestDecodeDeepBSON(t *testing.T) {
	t.Parallel()
	const levels = 1 << 20
	body := make([]byte, 0, levels*8+5)
	for left := levels; left > 0; left-- {
		body = binary.LittleEndian.AppendUint32(body, uint32(left*8+5))
		body = append(body, byte(bson.TypeEmbeddedDocument), 'a', 0)
	}
	body = append(body, 5, 0, 0, 0, 0)
	body = append(body, make([]byte, levels)...)
	var broken *event.ContractError
	if _, err := event.DecodeBody("application/bson", body); !errors.As(err, &broken) || !strings.Contains(broken.Detail, "levels") {
		t.Fatalf("got %v", err)
	}
}

func TestDecodeSurrogates(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`\ud834\udd1e`:       "𝄞",
		`\uD834\uDD1E`:       "𝄞",
		`a\ud834b`:           "a\ufffdb",
		`\udd1e`:             "\ufffd",
		`\ud834\n`:           "\ufffd\n",
		`\ud834\u0041`:       "\ufffdA",
		`\ud834\ud834\udd1e`: "\ufffd𝄞",
		`\u0000`:             "\x00",
		`\/\b\f\n\r\t\"\\`:   "/\b\f\n\r\t\"\\",
	} {
		doc, err := event.DecodeBody("application/json", []byte(`{"a":"`+in+`"}`))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := doc.Lookup("a").StringValue(); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}
