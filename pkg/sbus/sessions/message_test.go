package sessions

import (
	"testing"
	"time"

	"github.com/Azure/go-amqp"
)

func TestMessageHasTheFieldsOfTheSDKsMessage(t *testing.T) {
	t.Parallel()
	session, contentType, at := "s", "application/json", time.Unix(1700000000, 0)
	raw := &amqp.Message{
		Header:                &amqp.MessageHeader{DeliveryCount: 2, TTL: time.Hour},
		DeliveryTag:           []byte{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15},
		Properties:            &amqp.MessageProperties{MessageID: "m", GroupID: &session, ContentType: &contentType, CorrelationID: "c"},
		ApplicationProperties: map[string]any{"claimCheck": true},
		Annotations: amqp.Annotations{
			annotationSequenceNumber: int64(7), annotationEnqueuedTime: at, annotationLockedUntil: at, annotationPartitionKey: "s",
		},
		Data: [][]byte{[]byte("body")},
	}
	m := convert(raw)
	if m.MessageID != "m" || *m.SessionID != "s" || *m.ContentType != contentType || *m.CorrelationID != "c" ||
		m.DeliveryCount != 3 || *m.TimeToLive != time.Hour || string(m.Body) != "body" || *m.SequenceNumber != 7 ||
		!m.EnqueuedTime.Equal(at) || !m.LockedUntil.Equal(at) || *m.PartitionKey != "s" || m.ApplicationProperties["claimCheck"] != true {
		t.Errorf("message is %+v", m)
	}
	if want := [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; m.LockToken != want {
		t.Errorf("lock token is %v", m.LockToken)
	}
}

// The SDK panics if an annotation has an unexpected type.
func TestMessageOfUnexpectedTypesDoesNotPanic(t *testing.T) {
	t.Parallel()
	m := convert(&amqp.Message{
		DeliveryTag: []byte{1},
		Properties:  &amqp.MessageProperties{MessageID: uint64(7)},
		Annotations: amqp.Annotations{
			annotationSequenceNumber: "seven", annotationEnqueuedTime: int64(1), annotationLockedUntil: "", annotationPartitionKey: 1,
		},
		Data: [][]byte{[]byte("a"), []byte("b")},
	})
	if m.MessageID != "" || m.SequenceNumber != nil || m.EnqueuedTime != nil || m.Body != nil || m.LockToken != [16]byte{} {
		t.Errorf("message is %+v", m)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	want := time.Date(2024, 2, 29, 12, 30, 0, 500_000_000, time.UTC)
	if got := fromTicks(want.UnixNano()/100 + epochTicks); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
