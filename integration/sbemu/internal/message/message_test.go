package message_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

func newID() string { return "assigned" }

// messages generates messages as go-amqp writes them.
func messages() *rapid.Generator[*amqp.Message] {
	text := rapid.StringMatching(`[a-z0-9]{1,20}`)

	return rapid.Custom(func(t *rapid.T) *amqp.Message {
		flip := func(what string) bool { return rapid.Bool().Draw(t, what) }
		m := &amqp.Message{Properties: &amqp.MessageProperties{}}

		if flip("id") {
			m.Properties.MessageID = text.Draw(t, "id")
		}

		if flip("session") {
			s := text.Draw(t, "session")
			m.Properties.GroupID = &s
		}

		if flip("subject") {
			s := text.Draw(t, "subject")
			m.Properties.Subject = &s
		}

		if flip("header") {
			m.Header = &amqp.MessageHeader{Durable: flip("durable"), Priority: rapid.Uint8().Draw(t, "priority"),
				TTL: time.Duration(rapid.IntRange(0, 1e6).Draw(t, "ttl")) * time.Millisecond}
		}

		if flip("annotations") {
			m.Annotations = amqp.Annotations{"x-mine": text.Draw(t, "annotation"), "x-opt-sequence-number": int64(5),
				"x-opt-partition-key": text.Draw(t, "key"), "x-opt-message-state": int32(1)}
		}

		if flip("delivery annotations") {
			m.DeliveryAnnotations = amqp.Annotations{"x-d": int64(1)}
		}

		if flip("application properties") {
			m.ApplicationProperties = map[string]any{"a": text.Draw(t, "a"), "n": rapid.Int64().Draw(t, "n")}
		}

		switch rapid.IntRange(0, 3).Draw(t, "body") {
		case 0:
			m.Data = [][]byte{rapid.SliceOfN(rapid.Byte(), 1, 400).Draw(t, "data")}
		case 1:
			m.Data = [][]byte{[]byte("one"), []byte("two")}
		case 2:
			m.Value = text.Draw(t, "value")
		default:
			m.Sequence = [][]any{{int64(1), "x"}}
		}

		if flip("footer") {
			m.Footer = amqp.Annotations{"f": "v"}
		}

		return m
	})
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent := messages().Draw(t, "message")

		encoded, err := sent.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}

		m, err := message.Parse(encoded, newID)
		if err != nil {
			t.Fatal(err)
		}

		stamp := message.Stamp{
			DeliveryCount: 3, SequenceNumber: 1 << 50, EnqueuedSequence: 9,
			EnqueuedAt: time.UnixMilli(1e12), LockedUntil: time.UnixMilli(2e12),
			LockToken: wire.UUID{1, 2}, State: message.Deferred,
		}

		stamped := m.Append(nil, &stamp)
		if len(stamped) > m.Size+message.StampSize {
			t.Fatalf("%d bytes were stamped to %d", m.Size, len(stamped))
		}

		var got amqp.Message
		if err := got.UnmarshalBinary(stamped); err != nil {
			t.Fatal(err)
		}

		want := *sent
		want.Header = &amqp.MessageHeader{Priority: 4} // the default

		if sent.Header != nil {
			*want.Header = *sent.Header
		}

		want.Header.DeliveryCount = 3
		want.Annotations = amqp.Annotations{
			"x-opt-sequence-number": int64(1 << 50), "x-opt-enqueued-time": time.UnixMilli(1e12).UTC(),
			"x-opt-enqueue-sequence-number": int64(9), "x-opt-locked-until": time.UnixMilli(2e12).UTC(),
			"x-opt-message-state": int32(1),
		}

		for _, key := range []string{"x-mine", "x-opt-partition-key"} {
			if v, ok := sent.Annotations[key]; ok {
				want.Annotations[key] = v
			}
		}

		want.DeliveryAnnotations = amqp.Annotations{"x-opt-lock-token": amqp.UUID{1, 2}}
		if sent.DeliveryAnnotations != nil {
			want.DeliveryAnnotations["x-d"] = int64(1)
		}

		if sent.Properties.MessageID == nil {
			properties := *sent.Properties
			properties.MessageID = "assigned"
			want.Properties = &properties
		}

		compare(t, "header", got.Header, want.Header)
		for key, v := range got.Annotations {
			if at, ok := v.(time.Time); ok {
				got.Annotations[key] = at.UTC()
			}
		}

		compare(t, "annotations", got.Annotations, want.Annotations)
		compare(t, "delivery annotations", got.DeliveryAnnotations, want.DeliveryAnnotations)
		compare(t, "properties", got.Properties, want.Properties)
		compare(t, "application properties", got.ApplicationProperties, want.ApplicationProperties)
		compare(t, "data", got.Data, want.Data)
		compare(t, "value", got.Value, want.Value)
		compare(t, "sequence", got.Sequence, want.Sequence)
		compare(t, "footer", got.Footer, want.Footer)
	})
}

func compare(t *rapid.T, what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s is %#v, want %#v", what, got, want)
	}
}

func TestApplicationPropertiesAreMerged(t *testing.T) {
	t.Parallel()

	encoded, err := (&amqp.Message{ApplicationProperties: map[string]any{"a": "1", "b": "2"}, Value: "v"}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}

	m, err := message.Parse(encoded, newID)
	if err != nil {
		t.Fatal(err)
	}

	changed := m.WithApplicationProperties(wire.Map{{Key: wire.Symbol("b"), Value: int64(3)}, {Key: "c", Value: true}})

	var got amqp.Message
	if err := got.UnmarshalBinary(changed.Append(nil, &message.Stamp{})); err != nil {
		t.Fatal(err)
	}

	if want := map[string]any{"a": "1", "b": int64(3), "c": true}; !reflect.DeepEqual(got.ApplicationProperties, want) {
		t.Fatalf("properties are %v, want %v", got.ApplicationProperties, want)
	}

	if v, _ := m.ApplicationProperties().Get("b"); v != any("2") {
		t.Fatal("the original changed")
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()

	section := func(code byte, value any) []byte { return wire.AppendValue(wire.AppendDescriptor(nil, code), value) }
	data := section(wire.CodeData, []byte("x"))

	for name, b := range map[string][]byte{
		"garbage":                   {1, 2, 3},
		"truncated":                 data[:len(data)-1],
		"unknown section":           section(0x79, "x"),
		"sections out of order":     append(bytes.Clone(data), section(wire.CodeHeader, []any{})...),
		"header twice":              append(section(wire.CodeHeader, []any{}), section(wire.CodeHeader, []any{})...),
		"two kinds of body":         append(bytes.Clone(data), section(wire.CodeValue, "x")...),
		"data that is no binary":    section(wire.CodeData, "x"),
		"session that is no string": section(wire.CodeProperties, []any{"id", nil, nil, nil, nil, nil, nil, nil, nil, nil, int64(1)}),
		"id of a wrong type":        section(wire.CodeProperties, []any{true}),
		"property key of a number":  section(wire.CodeApplicationProperties, wire.Map{{Key: int64(1), Value: "x"}}),
		"property of a list":        section(wire.CodeApplicationProperties, wire.Map{{Key: "k", Value: []any{"x"}}}),
		"property of a map":         section(wire.CodeApplicationProperties, wire.Map{{Key: "k", Value: wire.Map{}}}),
		"property of an array":      section(wire.CodeApplicationProperties, wire.Map{{Key: "k", Value: wire.Raw(wire.AppendLongs(nil, []int64{1}))}}),
		"partition key of a number": section(wire.CodeMessageAnnotations, wire.Map{{Key: wire.Symbol("x-opt-partition-key"), Value: int64(1)}}),
		"schedule without a time":   section(wire.CodeMessageAnnotations, wire.Map{{Key: wire.Symbol("x-opt-scheduled-enqueue-time"), Value: nil}}),
		"text that is not UTF-8":    section(wire.CodeValue, "\xff"),
	} {
		if _, err := message.Parse(b, newID); !errors.Is(err, message.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParse feeds bytes to the parser. If the parser accepts them, the message that the
// broker delivers must parse again.
func FuzzParse(f *testing.F) {
	for _, m := range []*amqp.Message{
		{Data: [][]byte{[]byte("x")}, Annotations: amqp.Annotations{"x-opt-sequence-number": int64(1), "k": "v"}},
		{Value: "x", Header: &amqp.MessageHeader{Durable: true, Priority: 4, TTL: time.Second}, Footer: amqp.Annotations{"a": "b"}},
		{Sequence: [][]any{{int64(1)}}, ApplicationProperties: map[string]any{"a": "b"}, Properties: &amqp.MessageProperties{MessageID: "id"}},
	} {
		b, err := m.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}

		f.Add(b)
	}

	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := message.Parse(bytes.Clone(b), newID)
		if err != nil {
			return
		}

		stamp := message.Stamp{LockToken: wire.UUID{1}, EnqueuedAt: time.UnixMilli(1), LockedUntil: time.UnixMilli(2)}
		out := m.Append(nil, &stamp)

		if _, err := message.Parse(out, newID); err != nil {
			t.Fatalf("% x does not parse again: %v", out, err)
		}

		m.ApplicationProperties()
		message.NewView(m).System("subject")

		_, _ = message.Batch(b, 100, newID)
	})
}
