package sbus_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// An answer of the broker, as Service Bus has sent it, reads as a sentence. The error is still
// classified.
func TestAnswersAreReadable(t *testing.T) {
	t.Parallel()
	full := &amqp.Error{
		Condition:   amqp.ErrCondUnauthorizedAccess,
		Description: "Unauthorized access. 'Listen' claim(s) are required to perform this operation. Resource: 'sb://shop.servicebus.windows.net/events'. TrackingId:5b0e, SystemTracker:NoSystemTracker, Timestamp:2026-03-01T10:00:00.",
		Info:        map[string]any{"com.microsoft:tracking-id": "5b0e"},
	}
	for _, c := range []struct {
		err  error
		text string
	}{
		{full, "Unauthorized access. 'Listen' claim(s) are required to perform this operation. Resource: 'sb://shop.servicebus.windows.net/events'. TrackingId:5b0e, SystemTracker:NoSystemTracker, Timestamp:2026-03-01T10:00:00 (amqp:unauthorized-access)"},
		{fmt.Errorf("accept: %w; then: %w", &amqp.LinkError{RemoteErr: &amqp.Error{Condition: "com.microsoft:entity-disabled"}}, &amqp.Error{Condition: amqp.ErrCondNotFound, Description: "no such topic"}), "accept: com.microsoft:entity-disabled; then: no such topic (amqp:not-found)"},
		{errors.New("no answer"), "no answer"},
	} {
		readable := sbus.Readable(c.err)
		if readable.Error() != c.text {
			t.Errorf("%v\nis %s\nwant %s", c.err, readable, c.text)
		}
		if sbus.Classify(readable) != sbus.Classify(c.err) || sbus.Broken(readable) != sbus.Broken(c.err) || !errors.Is(readable, c.err) {
			t.Errorf("%v is another error than before", c.err)
		}
	}
	if sbus.Readable(nil) != nil {
		t.Error("nil is an error")
	}
}
