package publish

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// TestSendErrors classifies errors in the form in which the SDK v1.11 returns them
// without its retries.
func TestSendErrors(t *testing.T) {
	t.Parallel()
	partitioned := func(what string) error {
		return &amqp.Error{
			Condition:   amqp.ErrCondNotAllowed,
			Description: "Batching brokered messages with distinct " + what + " is not supported for an entity with partitioning enabled.",
		}
	}
	for _, test := range []struct {
		name     string
		err      error
		messages int
		want     SendError
	}{
		{"busy disposition", &amqp.Error{Condition: "com.microsoft:server-busy"}, 5, SendError{Fault: FaultBusy}},
		{"busy detach", &amqp.LinkError{RemoteErr: &amqp.Error{Condition: "com.microsoft:server-busy"}}, 5, SendError{Fault: FaultBusy, Broken: true}},
		{"full topic", &amqp.Error{Condition: amqp.ErrCondResourceLimitExceeded}, 1, SendError{Fault: FaultBusy}},
		// The refusal may have come with a detach: the SDK returns the same error for
		// both.
		{"service timeout", &azservicebus.Error{Code: azservicebus.CodeTimeout}, 1, SendError{Fault: FaultTransient, Broken: true}},
		{"our timeout", fmt.Errorf("send: %w", context.DeadlineExceeded), 1, SendError{Fault: FaultTransient, Broken: true}},
		{"no credit in time", &azservicebus.Error{Code: azservicebus.CodeConnectionLost}, 1, SendError{Fault: FaultDisconnected, Broken: true}},
		{"connection lost", &amqp.ConnError{}, 1, SendError{Fault: FaultDisconnected, Broken: true}},
		{"closed sender", &azservicebus.Error{Code: azservicebus.CodeClosed}, 1, SendError{Fault: FaultDisconnected, Broken: true}},
		{"large batch", &amqp.Error{Condition: amqp.ErrCondMessageSizeExceeded}, 5, SendError{Fault: FaultTooLarge}},
		{"large message", azservicebus.ErrMessageTooLarge, 1, SendError{Fault: FaultTooLarge, First: true}},
		{"partitioned", partitioned("SessionId or PartitionKey"), 5, SendError{Fault: FaultMixed}},
		{"partitioned, duplicate detection", partitioned("SessionId, PartitionKey, or MessageId"), 5, SendError{Fault: FaultBatch}},
		{"bad argument", &amqp.Error{Condition: "com.microsoft:argument-error"}, 1, SendError{Fault: FaultRefused}},
		{"unauthorized", &azservicebus.Error{Code: azservicebus.CodeUnauthorizedAccess}, 1, SendError{Fault: FaultFatal, Broken: true}},
		{"no topic", &amqp.Error{Condition: amqp.ErrCondNotFound}, 1, SendError{Fault: FaultFatal}},
		{"disabled", &amqp.Error{Condition: "com.microsoft:entity-disabled"}, 1, SendError{Fault: FaultFatal}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := *sendError(test.err, test.messages)
			if !errors.Is(&got, test.err) {
				t.Errorf("%v does not wrap the SDK's error", &got)
			}
			if got.Err = nil; got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestRefusalOnALinkThatALargeMessageEnded: later sends on that link fail as too large,
// whatever their size.
func TestRefusalOnALinkThatALargeMessageEnded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		body int
		want SendError
	}{
		{"small message", azservicebus.ErrMessageTooLarge, 100, SendError{Fault: FaultTooLarge, First: true, Broken: true}},
		{"large message", azservicebus.ErrMessageTooLarge, 256 << 10, SendError{Fault: FaultTooLarge, First: true}},
		{"small message, another refusal", &amqp.Error{Condition: amqp.ErrCondNotAllowed}, 100, SendError{Fault: FaultRefused}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := *singleError(test.err, &event.Message{Body: make([]byte, test.body)})
			if got.Err = nil; got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
