package backlog

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// Connection is one AMQP connection to the broker.
type Connection interface {
	// Sessions starts a list of the subscription's sessions.
	Sessions() *runtime.Pager[azservicebus.ListSessionsResponse]
	Close(ctx context.Context) error
}

// Dial returns a function that makes connections with azservicebus. The function makes no
// request: the first page does.
func Dial(s sbus.Subscription) func() (Connection, error) {
	return func() (Connection, error) {
		client, err := s.NewClient()
		if err != nil {
			return nil, sbus.Readable(err)
		}
		return clientConnection{client, s}, nil
	}
}

// Try lists sessions of the subscription, which needs the right to listen and takes no session
// from a projector.
func Try(ctx context.Context, s sbus.Subscription) error {
	connection, err := Dial(s)()
	if err != nil {
		return sbus.Readable(err)
	}
	if pages := connection.Sessions(); pages.More() {
		_, err = pages.NextPage(ctx)
	}
	_ = connection.Close(ctx)
	return sbus.Readable(err)
}

type clientConnection struct {
	*azservicebus.Client
	subscription sbus.Subscription
}

func (c clientConnection) Sessions() *runtime.Pager[azservicebus.ListSessionsResponse] {
	return c.NewListSessionsForSubscriptionPager(c.subscription.Topic, c.subscription.Name, nil)
}
