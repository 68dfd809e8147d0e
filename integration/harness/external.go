package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// connectTimeout bounds the first requests to a server.
	connectTimeout = 30 * time.Second
	// requestTimeout bounds later requests of a test.
	requestTimeout = time.Minute
)

// External is a running MongoDB replica set and Service Bus namespace. Tests share both:
// each backend opens databases and a topic of its own, and removes them when it is closed.
type External struct {
	options ExternalOptions
	store   *mongo.Client
	http    *http.Client
	admin   *admin.Client
	// run distinguishes the names of this run from those of others; opened counts the run's
	// backends.
	run    string
	opened atomic.Int64
}

// ConnectExternal checks both servers, so that a wrong address is reported once and not by
// every test. The caller closes the result.
func ConnectExternal(ctx context.Context, o ExternalOptions) (*External, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("not within %s", connectTimeout))
	defer cancel()
	e := &External{options: o, http: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}, run: strings.ToLower(rand.Text()[:8])}
	var err error
	if e.admin, err = newAdmin(o, e.http); err != nil {
		return nil, err
	}
	if e.store, err = mongo.Connect(options.Client().ApplyURI(o.MongoURI)); err != nil {
		return nil, fmt.Errorf("open the event store: %w", err)
	}
	if err := awaitPrimary(ctx, e.store); err != nil {
		return nil, errors.Join(fmt.Errorf("reach the event store at %s: %w", mongox.Redact(o.MongoURI), err), e.Close())
	}
	// This request needs no entity, and succeeds only with the claim Manage.
	if _, err := e.admin.GetTopic(ctx, e.name(0), nil); err != nil {
		return nil, errors.Join(fmt.Errorf("reach the administration API of Service Bus: %w", err), e.Close())
	}
	return e, nil
}

// primaryPoll is the interval at which awaitPrimary asks.
const primaryPoll = 200 * time.Millisecond

// awaitPrimary waits until the replica set accepts writes. A direct connection works before
// a new set has elected its only member.
func awaitPrimary(ctx context.Context, client *mongo.Client) error {
	if err := mongox.CheckReplicaSet(ctx, client); err != nil {
		return err
	}
	return proc.Await(ctx, primaryPoll, "a primary", func() (bool, error) {
		hello, err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
		if err != nil {
			return false, fmt.Errorf("ask for the primary: %w", err)
		}
		writable, _ := hello.Lookup("isWritablePrimary").BooleanOK()
		return writable, nil
	})
}

// name returns the name of the nth pipeline's topic, which also begins its databases'
// names.
func (e *External) name(n int64) string { return fmt.Sprintf("penstock-test-%s-%d", e.run, n) }

// MaxConnections bounds the AMQP connections of all open backends together; 0 means no
// bound.
func (e *External) MaxConnections() int { return e.options.MaxConnections }

// Close ends the connections. Close the backends before.
func (e *External) Close() error {
	e.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := e.store.Disconnect(ctx); err != nil {
		return fmt.Errorf("disconnect from the event store: %w", err)
	}
	return nil
}
