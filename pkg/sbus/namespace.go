package sbus

import (
	"context"
	"fmt"
	"net"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Namespace makes the clients of one Service Bus namespace. A process has one Namespace, so
// that all clients share one Azure identity: azidentity caches tokens per credential, and a
// credential for each connection would send a request for each to the identity provider,
// all at once after an outage. It is safe for concurrent use. Make it with [Open].
type Namespace struct {
	// config has the connection string of the start; signer has the current one.
	config Config
	signer *signer
	// credential is nil if there is a connection string.
	credential azcore.TokenCredential
}

// Open makes the namespace of a valid configuration without a network request. Without a
// connection string, the credential comes from the environment: workload identity, managed
// identity or a developer's login.
func Open(c Config) (*Namespace, error) {
	return open(c, func() (azcore.TokenCredential, error) { return azidentity.NewDefaultAzureCredential(nil) })
}

func open(c Config, newCredential func() (azcore.TokenCredential, error)) (*Namespace, error) {
	n := &Namespace{config: c, signer: newSigner(string(c.ConnectionString))}
	if c.ConnectionString != "" {
		return n, nil
	}
	var err error
	if n.credential, err = newCredential(); err != nil {
		return nil, fmt.Errorf("find Azure credentials: %w", err)
	}
	return n, nil
}

// NewClient makes a client without a network request. The client opens one AMQP connection
// at its first use. The SDK's own retries are off, because they wait for 4 s or more and
// would change the order of messages.
//
// Without them, an idle client dials without a pause while each dial fails at once: the SDK renews
// the claims of its connection every five minutes, and only its retries would pause (azservicebus
// v1.11.0, internal/namespace.go, the loop around NegotiateClaimRefresh).
func (n *Namespace) NewClient() (*azservicebus.Client, error) {
	options := &azservicebus.ClientOptions{
		ApplicationID: "penstock",
		RetryOptions:  azservicebus.RetryOptions{MaxRetries: -1},
	}
	if dial := n.Dialer(); dial != nil {
		options.NewWebSocketConn = func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return dial(ctx)
		}
	}
	if connectionString, _ := n.signer.get(); connectionString != "" {
		client, err := azservicebus.NewClientFromConnectionString(connectionString, options)
		if err != nil {
			return nil, fmt.Errorf("open Service Bus client of %s: %w", n.config.Host(), err)
		}
		return client, nil
	}
	client, err := azservicebus.NewClient(n.config.host(), n.credential, options)
	if err != nil {
		return nil, fmt.Errorf("open Service Bus client of %s: %w", n.config.Host(), err)
	}
	return client, nil
}
