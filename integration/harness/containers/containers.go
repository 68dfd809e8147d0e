package containers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/azure/servicebus"
	"github.com/testcontainers/testcontainers-go/modules/mongodb"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// Images of the containers. The servicebus module is tested with this image of SQL Server.
// SQL Edge, which the emulator used first, is retired and does not run on newer kernels
// (Azure/azure-service-bus-emulator-installer, issue 18).
const (
	mongoImage    = "mongo:7.0"
	emulatorImage = "mcr.microsoft.com/azure-messaging/servicebus-emulator:2.0.0"
	sqlImage      = "mcr.microsoft.com/mssql/server:2022-CU14-ubuntu-22.04"
)

const (
	// emulatorConnections is how many connections the emulator accepts at the same time.
	emulatorConnections = 10
	// emulatorAdminPort serves health and administration.
	emulatorAdminPort = "5300/tcp"
	mongoPort         = "27017/tcp"
	replicaSet        = "rs0"
)

// licenceVariable must be set to accept Microsoft's licences for the emulator and SQL
// Server.
const licenceVariable = "PENSTOCK_TEST_ACCEPT_EULA"

const (
	// startTimeout includes pulling about 2 GB of images.
	startTimeout = 15 * time.Minute
	stopTimeout  = 2 * time.Minute
)

// Containers are running servers that the scenarios of a test share.
type Containers struct {
	*harness.External
	running []testcontainers.Container
}

// Start pulls the images and starts the containers. Without a Docker engine, the error is
// [ErrNoEngine] with the remedy, in one sentence. The caller closes the result.
func Start(ctx context.Context, getenv func(string) string) (_ *Containers, err error) {
	if err := checkEngine(ctx); err != nil {
		return nil, err
	}
	if getenv(licenceVariable) != "Y" {
		return nil, fmt.Errorf("the backend %q runs Microsoft's Service Bus emulator and SQL Server: set %s=Y if you accept their licences",
			harness.KindContainers, licenceVariable)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not within %s", startTimeout))
	defer cancel()
	c := &Containers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.terminate())
		}
	}()
	options := harness.ExternalOptions{MaxConnections: emulatorConnections}
	if options.MongoURI, err = c.startMongo(ctx); err != nil {
		return nil, err
	}
	if options.ConnectionString, options.AdminEndpoint, err = c.startEmulator(ctx); err != nil {
		return nil, err
	}
	if c.External, err = harness.ConnectExternal(ctx, options); err != nil {
		return nil, err
	}
	return c, nil
}

// startMongo starts a replica set and returns its URI. The connection is direct: the set
// knows its member by an address in the engine's network, which other hosts may not reach.
func (c *Containers) startMongo(ctx context.Context) (uri string, err error) {
	store, err := mongodb.Run(ctx, mongoImage, mongodb.WithReplicaSet(replicaSet))
	if store != nil {
		c.running = append(c.running, store)
	}
	if err != nil {
		return "", fmt.Errorf("start MongoDB: %w", err)
	}
	address, err := store.PortEndpoint(ctx, mongoPort, "")
	if err != nil {
		return "", fmt.Errorf("find the port of MongoDB: %w", err)
	}
	return "mongodb://" + address + "/?directConnection=true", nil
}

// startEmulator starts SQL Server and the emulator. It returns the connection string and
// the URL of the administration API.
func (c *Containers) startEmulator(ctx context.Context) (connectionString, adminEndpoint string, err error) {
	emulator, err := servicebus.Run(ctx, emulatorImage, servicebus.WithMSSQL(sqlImage), servicebus.WithAcceptEULA())
	if emulator != nil {
		c.running = append(c.running, emulator)
	}
	if err != nil {
		return "", "", fmt.Errorf("start the Service Bus emulator: %w", err)
	}
	if connectionString, err = emulator.ConnectionString(ctx); err != nil {
		return "", "", fmt.Errorf("find the port of the Service Bus emulator: %w", err)
	}
	if adminEndpoint, err = emulator.PortEndpoint(ctx, emulatorAdminPort, "http"); err != nil {
		return "", "", fmt.Errorf("find the administration port of the Service Bus emulator: %w", err)
	}
	return connectionString, adminEndpoint, nil
}

// Close closes the connections and removes the containers.
func (c *Containers) Close() error { return errors.Join(c.External.Close(), c.terminate()) }

func (c *Containers) terminate() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var errs []error
	for _, container := range c.running {
		errs = append(errs, container.Terminate(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the containers: %w", err)
	}
	return nil
}
