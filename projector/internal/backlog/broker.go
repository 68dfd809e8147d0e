package backlog

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Connection is one AMQP connection to the broker.
type Connection interface {
	// Sessions begins to list the subscription's sessions.
	Sessions() Pages
	Close(ctx context.Context) error
}

// Pages is the part of the SDK's pager that counting uses.
type Pages interface {
	More() bool
	NextPage(ctx context.Context) (azservicebus.ListSessionsResponse, error)
}

// Subscription makes connections for one subscription of a topic.
type Subscription struct {
	Topic, Name string
	// NewClient makes the SDK's client of a connection. Its own retries should be
	// off.
	NewClient func() (*azservicebus.Client, error)
}

// Dial makes a connection. It does not touch the network: the first page does.
func (s Subscription) Dial() (Connection, error) {
	client, err := s.NewClient()
	if err != nil {
		return nil, err
	}
	return &clientConnection{client: client, topic: s.Topic, subscription: s.Name}, nil
}

type clientConnection struct {
	client              *azservicebus.Client
	topic, subscription string
}

func (c *clientConnection) Sessions() Pages {
	return c.client.NewListSessionsForSubscriptionPager(c.topic, c.subscription, nil)
}

func (c *clientConnection) Close(ctx context.Context) error { return c.client.Close(ctx) }
