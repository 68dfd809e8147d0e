package sbus

import "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

// Subscription is one subscription of a topic, and how to connect to it with azservicebus.
type Subscription struct {
	Topic, Name string
	// NewClient makes the SDK's client of a connection. Its own retries should be off.
	NewClient func() (*azservicebus.Client, error)
	// Changed returns a channel that is closed when clients that are made later have another
	// key ([Namespace.Changed]); nil if the key of a connection does not matter.
	Changed func() <-chan struct{}
}
