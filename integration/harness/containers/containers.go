package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/azure/servicebus"
	"github.com/testcontainers/testcontainers-go/modules/mongodb"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// image is the image of a container: the value of a variable, or a default.
type image struct{ variable, name string }

// Images of the containers. The servicebus module is tested with this image of SQL Server.
// SQL Edge, which the emulator used first, is retired and does not run on newer kernels
// (Azure/azure-service-bus-emulator-installer, issue 18).
var (
	mongoImage    = image{"PENSTOCK_TEST_MONGO_IMAGE", "mongo:7.0"}
	emulatorImage = image{"PENSTOCK_TEST_SERVICEBUS_IMAGE", "mcr.microsoft.com/azure-messaging/servicebus-emulator:2.0.0"}
	sqlImage      = image{"PENSTOCK_TEST_SQL_IMAGE", "mcr.microsoft.com/mssql/server:2022-CU14-ubuntu-22.04"}
)

func (i image) choose(getenv func(string) string) string { return cmp.Or(getenv(i.variable), i.name) }

// microsoft is the registry of the images whose licences must be accepted.
const microsoft = "mcr.microsoft.com/"

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
	// engineTimeout bounds the check for an engine.
	engineTimeout = 10 * time.Second
)

// emulatorsVariable is how many emulators to start, default 1. Each runs one scenario at a
// time, because its connections are only enough for one.
const emulatorsVariable = "PENSTOCK_TEST_SERVICEBUS_CONTAINERS"

// Containers are running servers that the scenarios of a test share.
type Containers struct {
	// emulators are all emulators, each with the MongoDB that they share. free has those
	// that run no scenario.
	emulators []*harness.External
	free      chan *harness.External

	running []testcontainers.Container
}

// Backend is a scenario's share of the servers. It has an emulator for itself.
type Backend struct {
	*harness.ExternalBackend
	release func()
}

// Close removes what the scenario has made, and releases the emulator.
func (b *Backend) Close() error {
	defer b.release()
	return b.ExternalBackend.Close()
}

// Open waits for an emulator that is free, and opens a pipeline's share of it and of
// MongoDB. The caller closes the backend.
func (c *Containers) Open(ctx context.Context, o harness.TopicOptions) (*Backend, error) {
	select {
	case emulator := <-c.free:
		release := sync.OnceFunc(func() { c.free <- emulator })
		opened, err := emulator.Open(ctx, o)
		if err != nil {
			release()
			return nil, err
		}
		return &Backend{opened, release}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a Service Bus emulator: %w", context.Cause(ctx))
	}
}

// Scenarios is how many scenarios can run at the same time.
func (c *Containers) Scenarios() int { return len(c.emulators) }

// Start pulls the images and starts the containers. Without a Docker engine, the error
// has the remedy, in one sentence. The caller closes the result.
func Start(ctx context.Context, getenv func(string) string) (_ *Containers, err error) {
	if err := checkEngine(ctx); err != nil {
		return nil, err
	}
	store, emulator, sql := mongoImage.choose(getenv), emulatorImage.choose(getenv), sqlImage.choose(getenv)
	if (strings.HasPrefix(emulator, microsoft) || strings.HasPrefix(sql, microsoft)) && getenv(licenceVariable) != "Y" {
		return nil, fmt.Errorf("the backend %q runs Microsoft's Service Bus emulator and SQL Server: set %s=Y if you accept their licences",
			harness.KindContainers, licenceVariable)
	}
	emulators, err := strconv.Atoi(cmp.Or(getenv(emulatorsVariable), "1"))
	if err != nil || emulators < 1 {
		return nil, fmt.Errorf("%s is %q: use a positive number, or leave it unset for one", emulatorsVariable, getenv(emulatorsVariable))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not within %s", startTimeout))
	defer cancel()
	c := &Containers{free: make(chan *harness.External, emulators)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	options := harness.ExternalOptions{MaxConnections: emulatorConnections}
	if options.MongoURI, err = c.startMongo(ctx, store); err != nil {
		return nil, err
	}
	for range emulators {
		if options.ConnectionString, options.AdminEndpoint, err = c.startEmulator(ctx, emulator, sql); err != nil {
			return nil, err
		}
		connected, err := harness.ConnectExternal(ctx, options)
		if err != nil {
			return nil, err
		}
		c.emulators = append(c.emulators, connected)
		c.free <- connected
	}
	return c, nil
}

// checkEngine checks whether a Docker engine answers.
func checkEngine(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, engineTimeout, fmt.Errorf("not within %s", engineTimeout))
	defer cancel()
	provider, err := testcontainers.NewDockerProvider()
	if err == nil {
		defer provider.Close()
		err = provider.Health(ctx)
	}
	if err != nil {
		return fmt.Errorf("the backend %q needs a Docker engine: make test-containers starts one if it can: %w", harness.KindContainers, err)
	}
	return nil
}

// startMongo starts a replica set and returns its URI. The connection is direct: the set
// knows its member by an address in the engine's network, which other hosts may not reach.
func (c *Containers) startMongo(ctx context.Context, name string) (uri string, err error) {
	store, err := mongodb.Run(ctx, name, mongodb.WithReplicaSet(replicaSet))
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
func (c *Containers) startEmulator(ctx context.Context, name, sql string) (connectionString, adminEndpoint string, err error) {
	emulator, err := servicebus.Run(ctx, name, servicebus.WithMSSQL(sql), servicebus.WithAcceptEULA())
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
func (c *Containers) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var errs []error
	for _, emulator := range c.emulators {
		errs = append(errs, emulator.Close())
	}
	for _, container := range c.running {
		errs = append(errs, container.Terminate(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the containers: %w", err)
	}
	return nil
}
