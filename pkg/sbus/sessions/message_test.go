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
		Header:                &amqp.MessageHeader{DeliveryCount: 2},
		Properties:            &amqp.MessageProperties{MessageID: "m", GroupID: &session, ContentType: &contentType},
		ApplicationProperties: map[string]any{"claimCheck": true},
		Annotations:           amqp.Annotations{annotationEnqueuedTime: at},
		Data:                  [][]byte{[]byte("body")},
	}
	m := convert(raw)
	if m.MessageID != "m" || *m.SessionID != "s" || *m.ContentType != contentType || m.DeliveryCount != 3 ||
		string(m.Body) != "body" || !m.EnqueuedTime.Equal(at) || m.ApplicationProperties["claimCheck"] != true {
		t.Errorf("message is %+v", m)
	}
}

// The SDK panics if an annotation has an unexpected type.
func TestMessageOfUnexpectedTypesDoesNotPanic(t *testing.T) {
	t.Parallel()
	m := convert(&amqp.Message{
		Properties:  &amqp.MessageProperties{MessageID: uint64(7)},
		Annotations: amqp.Annotations{annotationEnqueuedTime: int64(1)},
		Data:        [][]byte{[]byte("a"), []byte("b")},
	})
	if m.MessageID != "" || m.EnqueuedTime != nil || m.Body != nil {
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
