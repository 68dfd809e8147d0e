package simulation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/virtual"
)

// servers are the servers that the pipelines of a history share. They live in one bubble of
// testing/synctest.
type servers struct {
	folder  string
	network *virtual.Network
	mongo   *mongodbServer
	// stores has the read models and the state. It is the event store's server too, or another.
	stores *mongodbServer
	bus    *sbemu.Server
	kube   *apiServer
	// pipelines are those that share the servers.
	pipelines []*World
}

// mongodbServer is a server of MongoDB.
type mongodbServer struct {
	*mongoemu.Server
	// ahead is how far its clock is ahead of the processes' clocks.
	ahead atomic.Int64
	// client reaches it over a link without faults. Writers use it.
	client *mongo.Client
}

// newMongoDB starts a server with that name.
func newMongoDB(n *virtual.Network, name string, ahead time.Duration, sharded bool) (*mongodbServer, error) {
	s := new(mongodbServer)
	s.ahead.Store(int64(ahead))
	var err error
	s.Server, err = mongoemu.New(mongoemu.Config{
		Listener: n.Listen(name), Sharded: sharded,
		Now: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) },
	})
	if err != nil {
		return nil, err
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	s.client, err = mongo.Connect(options.Client().ApplyURI(s.URI()).SetDialer(n.NewHost("writers").Dialer(name)))
	return s, err
}

func (s *mongodbServer) close(ctx context.Context) error {
	return errors.Join(s.client.Disconnect(ctx), s.Close())
}

// mongodb returns the server of MongoDB that a fault concerns.
func (s *servers) mongodb(f Fault) *mongodbServer {
	if f.Server == stores {
		return s.stores
	}
	return s.mongo
}

// newServers starts the servers of a plan. folder is for files.
func newServers(p *Plan, folder string) (*servers, error) {
	s := &servers{folder: folder, network: virtual.NewNetwork(p.Seed)}
	var err error
	if s.mongo, err = newMongoDB(s.network, mongodb, p.ClockOffset, p.Sharded); err != nil {
		return nil, err
	}
	if s.stores = s.mongo; p.Split {
		if s.stores, err = newMongoDB(s.network, stores, -p.ClockOffset/2, p.Sharded); err != nil {
			return nil, err
		}
	}
	var topics []sbemu.Topic
	for i, p := range p.pipelines() {
		topics = append(topics, sbemu.Topic{
			Name: prefixes[i] + "events", DuplicateDetectionWindow: p.Duplicates, Partitioned: p.Partitioned, Record: 1 << 20,
			Subscriptions: []sbemu.Subscription{{Name: subscription, RequiresSession: true, LockDuration: p.Lock, MaxDeliveryCount: p.Deliveries, DeadLetterExpired: p.has(singleErasure)}},
		})
	}
	s.bus, err = sbemu.New(sbemu.Config{Listener: s.network.Listen(servicebus), Topics: topics})
	if err != nil {
		return nil, err
	}
	if err := s.bus.Start(); err != nil {
		return nil, err
	}
	s.kube = newAPIServer(s.network.Listen(kubernetes))
	return s, os.WriteFile(s.kubeconfig(), []byte(kubeconfig), 0o600)
}

// kubeconfig is the path of the file with the API server's address.
func (s *servers) kubeconfig() string { return filepath.Join(s.folder, "kubeconfig.yaml") }

// requests counts the requests to MongoDB.
func (s *servers) requests() int {
	all := []*mongodbServer{s.mongo}
	if s.stores != s.mongo {
		all = append(all, s.stores)
	}
	sum := 0
	for _, server := range all {
		for _, n := range server.CommandsByDatabase() {
			sum += n
		}
	}
	return sum
}

// close ends the servers.
func (s *servers) close(ctx context.Context) error {
	err := errors.Join(s.bus.Close(), s.kube.close(), s.mongo.close(ctx))
	if s.stores != s.mongo {
		err = errors.Join(err, s.stores.close(ctx))
	}
	return err
}
