package publish_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	config := sbus.Config{Namespace: "orders", Topic: "events"}
	refusal := func(condition amqp.ErrCond) error {
		return &publish.SendError{Fault: publish.FaultFatal, Err: &amqp.Error{Condition: condition}}
	}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"no such topic":  {refusal(amqp.ErrCondNotFound), `topic "events" of orders.servicebus.windows.net does not exist: create it`},
		"unauthorized":   {refusal(amqp.ErrCondUnauthorizedAccess), "grant the right to send"},
		"disabled":       {refusal("com.microsoft:entity-disabled"), "set its status to Active"},
		"clock behind":   {&publish.SendError{Fault: publish.FaultFatal, Err: &amqp.Error{Condition: amqp.ErrCondUnauthorizedAccess, Description: "ExpiredToken: The token is expired."}}, "correct the clock"},
		"something else": {refusal("odd"), "refuses the messages"},
		"passing":        {&publish.SendError{Fault: publish.FaultBusy, Err: io.EOF}, "busy: EOF"},
		"another error":  {io.EOF, "EOF"},
	} {
		got := publish.Explain(test.err, config)
		if !strings.Contains(got.Error(), test.want) || !errors.Is(got, test.err) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if err := publish.Explain(nil, config); err != nil {
		t.Error(err)
	}
}
