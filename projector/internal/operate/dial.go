package operate

import (
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// Dial returns a function that makes connections to the subscription with the configured
// receiver. The function makes no request: Accept does.
func Dial(c config.ServiceBus, namespace *sbus.Namespace, logger zerolog.Logger) func() (drain.Connection, error) {
	if c.Receiver == config.ReceiverSDK {
		return drain.DialSDK(sbus.Subscription{Topic: c.Topic, Name: c.Subscription, NewClient: namespace.NewClient, Changed: namespace.Changed})
	}
	return drain.DialAMQP(sessions.Options{Namespace: namespace, Topic: c.Topic, Subscription: c.Subscription, Dial: namespace.Dialer(), Logger: logger})
}
