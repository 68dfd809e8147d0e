package publish

import (
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// Explain adds the remedy to the error of a topic that refuses this publisher
// permanently. It returns any other error unchanged.
func Explain(err error, config sbus.Config) error {
	refusal, ok := errors.AsType[*SendError](err)
	if !ok || refusal.Fault != FaultFatal {
		return err
	}
	var condition amqp.ErrCond
	if amqpErr, ok := errors.AsType[*amqp.Error](err); ok {
		condition = amqpErr.Condition
	}
	var code azservicebus.Code
	if sdkErr, ok := errors.AsType[*azservicebus.Error](err); ok {
		code = sdkErr.Code
	}
	where := fmt.Sprintf("topic %q of %s", config.Topic, config.Host())
	remedy := sbus.Remedy(err, "the topic")
	switch {
	case remedy != "":
		return fmt.Errorf("%s refuses this publisher: %s: %w", where, remedy, err)
	case condition == amqp.ErrCondNotFound || code == azservicebus.CodeNotFound:
		return fmt.Errorf("%s does not exist: create it, or correct AZURE_SERVICEBUS_TOPIC_NAME: %w", where, err)
	case condition == amqp.ErrCondUnauthorizedAccess || code == azservicebus.CodeUnauthorizedAccess:
		return fmt.Errorf("%s does not let these credentials send: correct them, or grant the right to send (role Azure Service Bus Data Sender): %w", where, err)
	}
	return fmt.Errorf("%s refuses the messages: %w", where, err)
}
