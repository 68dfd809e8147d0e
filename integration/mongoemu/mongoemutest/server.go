package mongoemutest

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// heartbeat is the interval at which a client checks its server. It bounds how long a
// client needs to close if it is closed right after its start.
const heartbeat = 500 * time.Millisecond

// Start runs a server until the end of the test.
func Start(tb testing.TB, c mongoemu.Config) *mongoemu.Server {
	tb.Helper()
	s, err := mongoemu.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Connect connects the driver to a server until the end of the test. Each set changes the
// client's options.
func Connect(tb testing.TB, s *mongoemu.Server, set ...func(*options.ClientOptions)) *mongo.Client {
	tb.Helper()
	o := options.Client().ApplyURI(s.URI()).SetServerSelectionTimeout(time.Minute).SetHeartbeatInterval(heartbeat)
	for _, change := range set {
		change(o)
	}
	client, err := mongo.Connect(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client
}
