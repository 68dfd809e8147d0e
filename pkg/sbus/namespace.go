package sbus

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// ErrNoAdministration reports that the namespace is Microsoft's emulator, or a stand-in
// for it, which has no administration API over TLS.
var ErrNoAdministration = errors.New("the emulator has no administration API over TLS")

// Namespace makes the clients of one Service Bus namespace. A process has one: its
// clients share one Azure identity, because azidentity caches tokens per credential and
// a credential for each connection would ask the identity provider for each, after an
// outage for all of them at once. It is safe for concurrent use. Make it with [Open].
type Namespace struct {
	config Config
	// credential is nil if there is a connection string.
	credential azcore.TokenCredential
}

// Open makes the namespace of a valid configuration. It does not touch the network.
// Without a connection string, the credential is that of the environment: workload
// identity, managed identity, a developer's login.
func Open(c Config) (*Namespace, error) {
	return open(c, func() (azcore.TokenCredential, error) { return azidentity.NewDefaultAzureCredential(nil) })
}

func open(c Config, newCredential func() (azcore.TokenCredential, error)) (*Namespace, error) {
	n := &Namespace{config: c}
	if c.ConnectionString != "" {
		return n, nil
	}
	var err error
	if n.credential, err = newCredential(); err != nil {
		return nil, fmt.Errorf("find Azure credentials: %w", err)
	}
	return n, nil
}

// NewClient makes a client, which is one AMQP connection once it is used; it does
// not touch the network. The SDK's own retries are off: they wait for 4 s and more
// and would reorder what is sent.
func (n *Namespace) NewClient() (*azservicebus.Client, error) {
	options := &azservicebus.ClientOptions{
		ApplicationID: "penstock",
		RetryOptions:  azservicebus.RetryOptions{MaxRetries: -1},
	}
	if dial := n.WebSocketDialer(); dial != nil {
		options.NewWebSocketConn = func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return dial(ctx)
		}
	}
	if n.config.ConnectionString != "" {
		client, err := azservicebus.NewClientFromConnectionString(n.config.ConnectionString, options)
		if err != nil {
			return nil, fmt.Errorf("open Service Bus client of %s: %w", Redact(n.config.ConnectionString), err)
		}
		return client, nil
	}
	client, err := azservicebus.NewClient(n.config.host(), n.credential, options)
	if err != nil {
		return nil, fmt.Errorf("open Service Bus client of %s: %w", n.config.host(), err)
	}
	return client, nil
}

// NewAdministration makes a client of the namespace's administration API; it does not
// touch the network. It returns [ErrNoAdministration] for the emulator.
func (n *Namespace) NewAdministration() (*admin.Client, error) {
	if n.config.ConnectionString == "" {
		client, err := admin.NewClient(n.config.host(), n.credential, nil)
		if err != nil {
			return nil, fmt.Errorf("open administration client of %s: %w", n.config.host(), err)
		}
		return client, nil
	}
	if n.Plain() {
		return nil, ErrNoAdministration
	}
	client, err := admin.NewClientFromConnectionString(n.config.ConnectionString, nil)
	if err != nil {
		return nil, fmt.Errorf("open administration client of %s: %w", Redact(n.config.ConnectionString), err)
	}
	return client, nil
}
