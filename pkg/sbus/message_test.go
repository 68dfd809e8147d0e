package sbus_test

import (
	"maps"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

func TestToSDK(t *testing.T) {
	t.Parallel()
	m := &event.Message{
		Keys:      event.Keys{AggregateID: "a", EventID: 3, EventType: "T"},
		MessageID: "a/3", SessionKey: "bucket-1", ContentType: "application/json", Body: []byte("{}"), Epoch: 2,
	}
	got := sbus.ToSDK(m)
	if *got.MessageID != "a/3" || *got.SessionID != "bucket-1" || *got.PartitionKey != "bucket-1" || *got.ContentType != "application/json" ||
		&got.Body[0] != &m.Body[0] || !maps.Equal(got.ApplicationProperties, m.Properties()) {
		t.Errorf("got %+v", got)
	}
}

// received is what the broker makes of a sent message.
func received(m *azservicebus.Message) *azservicebus.ReceivedMessage {
	sequence, enqueued := int64(42), time.Unix(1700000000, 0)
	return &azservicebus.ReceivedMessage{
		ApplicationProperties: m.ApplicationProperties, Body: m.Body, ContentType: m.ContentType, MessageID: *m.MessageID,
		SessionID: m.SessionID, PartitionKey: m.PartitionKey, SequenceNumber: &sequence, EnqueuedTime: &enqueued, DeliveryCount: 1,
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		m := event.Message{
			Keys: event.Keys{
				AggregateID: text.Draw(t, "aggregateId"), AggregateType: text.Draw(t, "aggregateType"),
				EventID: rapid.Int64Min(1).Draw(t, "eventId"), EventType: text.Draw(t, "eventType"),
			},
			MessageID: text.Draw(t, "messageId"), SessionKey: text.Draw(t, "sessionKey"), ContentType: text.Draw(t, "contentType"),
			Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"), Epoch: rapid.Int64().Draw(t, "epoch"),
			TraceParent: text.Draw(t, "traceparent"), ClaimCheck: rapid.Bool().Draw(t, "claimCheck"),
		}
		if m.TraceParent != "" {
			m.TraceState = text.Draw(t, "tracestate")
		}
		r := sbus.FromSDK(received(sbus.ToSDK(&m)))
		body := r.Body
		r.Body = nil
		want := m
		want.Body = nil
		if !equal(r.Message, want) || string(body) != string(m.Body) {
			t.Fatalf("sent %+v, received %+v", m, r.Message)
		}
		if r.SequenceNumber != 42 || r.EnqueuedAt.Unix() != 1700000000 || r.DeliveryCount != 1 || r.SDK == nil {
			t.Fatalf("received %+v", r)
		}
	})
}

func equal(a, b event.Message) bool {
	return a.Keys == b.Keys && a.MessageID == b.MessageID && a.SessionKey == b.SessionKey && a.ContentType == b.ContentType &&
		a.Epoch == b.Epoch && a.TraceParent == b.TraceParent && a.TraceState == b.TraceState && a.ClaimCheck == b.ClaimCheck
}

// Senders in other languages send other integers, or nothing at all.
func TestFromForeignSender(t *testing.T) {
	t.Parallel()
	for _, eventID := range []any{int64(7), int32(7), int16(7), int8(7), uint64(7), uint32(7), uint16(7), uint8(7)} {
		r := sbus.FromSDK(&azservicebus.ReceivedMessage{ApplicationProperties: map[string]any{"eventId": eventID}})
		if r.EventID != 7 {
			t.Errorf("%T: got %d", eventID, r.EventID)
		}
	}
	for _, eventID := range []any{nil, "7", 7.0, uint64(1 << 63), true} {
		r := sbus.FromSDK(&azservicebus.ReceivedMessage{ApplicationProperties: map[string]any{"eventId": eventID, "aggregateId": 5, "claimCheck": "true"}})
		if r.EventID != 0 || r.AggregateID != "" || r.ClaimCheck {
			t.Errorf("%T: got %+v", eventID, r.Message)
		}
	}
	r := sbus.FromSDK(&azservicebus.ReceivedMessage{MessageID: "m"})
	if r.MessageID != "m" || r.SessionKey != "" || r.ContentType != "" || !r.EnqueuedAt.IsZero() || r.SequenceNumber != 0 {
		t.Errorf("got %+v", r)
	}
}
