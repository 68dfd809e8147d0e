package harness

import (
	"fmt"
	"strconv"
	"time"
)

// Environment variables of [LoadExternal].
const (
	mongoVariable       = "PENSTOCK_TEST_MONGODB_URI"
	busVariable         = "PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING"
	adminVariable       = "PENSTOCK_TEST_SERVICEBUS_ADMIN_ENDPOINT"
	connectionsVariable = "PENSTOCK_TEST_SERVICEBUS_MAX_CONNECTIONS"
)

// ExternalOptions are the addresses and limits of running servers.
type ExternalOptions struct {
	// MongoURI is the connection string of a replica set, whose user may create and drop
	// databases.
	MongoURI string
	// ConnectionString is the one of a Service Bus namespace, with the claim Manage,
	// because every pipeline gets a topic of its own.
	ConnectionString string
	// AdminEndpoint is the URL of the namespace's administration API. Empty means HTTPS on
	// the connection string's host. That is where Azure serves it, and the only place where
	// the SDK (v1.11) looks for it.
	AdminEndpoint string
	// MaxConnections bounds the AMQP connections that may be open at the same time; 0 means
	// no bound.
	MaxConnections int
	// CleanTimeout bounds how long a backend takes to remove what it made; 0 means a minute.
	CleanTimeout time.Duration
}

// LoadExternal reads options from the environment. [ConnectExternal] checks them.
func LoadExternal(getenv func(string) string) (ExternalOptions, error) {
	o := ExternalOptions{
		MongoURI: getenv(mongoVariable), ConnectionString: getenv(busVariable), AdminEndpoint: getenv(adminVariable),
	}
	if o.MongoURI == "" || o.ConnectionString == "" {
		return o, fmt.Errorf("configure the backend %q: set %s to the connection string of a replica set, and %s to that of a Service Bus namespace with the claim Manage", KindExternal, mongoVariable, busVariable)
	}
	if text := getenv(connectionsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("configure the backend %q: %s is %q: use a positive number, or leave it unset for no bound", KindExternal, connectionsVariable, text)
		}
		o.MaxConnections = n
	}
	return o, nil
}
