package sbus_test

import (
	"maps"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// onTheWire is what a receiver reads of a message that go-amqp encodes.
func onTheWire(t *testing.T, m *amqp.Message) *amqp.Message {
	t.Helper()
	encoded, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	read := new(amqp.Message)
	if err := read.UnmarshalBinary(encoded); err != nil {
		t.Fatal(err)
	}
	return read
}

// annotated is a message in the form in which the SDK passes it to go-amqp.
func annotated(m *azservicebus.AMQPAnnotatedMessage) *amqp.Message {
	return &amqp.Message{
		Annotations: amqp.Annotations(m.MessageAnnotations), ApplicationProperties: m.ApplicationProperties, Data: m.Body.Data,
		Properties: &amqp.MessageProperties{ContentType: m.Properties.ContentType, GroupID: m.Properties.GroupID, MessageID: m.Properties.MessageID, Subject: m.Properties.Subject},
	}
}

// TestAnnotatedMessageOnTheWire converts several messages one after the other in the same
// memory: no message may contain data of an earlier one.
func TestAnnotatedMessageOnTheWire(t *testing.T) {
	t.Parallel()
	var a sbus.Annotated
	for _, m := range []*event.Message{
		{
			Keys:      event.Keys{AggregateID: "a", EventID: 3, EventType: "T", AggregateType: "Order"},
			MessageID: "a/3", SessionKey: "bucket-1", ContentType: "application/json", Body: []byte("{}"), Epoch: 2,
			TraceParent: "00-1", TraceState: "x=y", ClaimCheck: true,
		},
		{
			Keys:      event.Keys{AggregateID: "b", EventID: 1 << 40, EventType: "U"},
			MessageID: "b/1099511627776", SessionKey: "b", ContentType: "application/bson", Body: []byte{5, 0, 0, 0, 0},
		},
	} {
		want := map[string]any{"aggregateId": m.AggregateID, "eventId": m.EventID, "eventType": m.EventType, "epoch": m.Epoch}
		if m.ClaimCheck {
			maps.Copy(want, map[string]any{
				"aggregateType": "Order", "traceparent": "00-1", "Diagnostic-Id": "00-1", "tracestate": "x=y", "claimCheck": true,
			})
		}
		got := onTheWire(t, annotated(a.Of(m)))
		if !maps.Equal(got.ApplicationProperties, want) {
			t.Errorf("%s: properties %v, want %v", m.MessageID, got.ApplicationProperties, want)
		}
		if got.Properties.MessageID != m.MessageID || *got.Properties.GroupID != m.SessionKey || *got.Properties.Subject != m.EventType ||
			*got.Properties.ContentType != m.ContentType || got.Annotations["x-opt-partition-key"] != m.SessionKey ||
			string(got.GetData()) != string(m.Body) || len(got.Annotations) != 1 {
			t.Errorf("%s: %+v, properties %+v, annotations %v", m.MessageID, got, got.Properties, got.Annotations)
		}
	}
}

// TestAnnotatedAllocatesNothing checks the purpose of the type.
func TestAnnotatedAllocatesNothing(t *testing.T) {
	var a sbus.Annotated
	m := &event.Message{Keys: event.Keys{AggregateID: "a", EventID: 3, EventType: "T", AggregateType: "Order"}, MessageID: "a/3", SessionKey: "a"}
	a.Of(m)
	if n := testing.AllocsPerRun(100, func() { a.Of(m) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
