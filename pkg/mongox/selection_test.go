package mongox_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/address"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// A command that cannot reach MongoDB prints why, and not the driver's topology.
func TestExplainNamesTheServersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	client, err := mongox.Open("mongodb://"+host+"/?replicaSet=rs0&serverSelectionTimeoutMS=100", mongox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	ctx, cancel := mongox.Timeout(t.Context(), time.Minute)
	defer cancel()
	err = mongox.Explain(ctx, mongox.CheckReplicaSet(ctx, client))
	if err == nil || !strings.Contains(err.Error(), "no primary was found") || !strings.Contains(err.Error(), host) || strings.Contains(err.Error(), "topology") {
		t.Errorf("the error is %v", err)
	}
	if !mongox.Transient(err) {
		t.Error("the error is not transient")
	}
}

func TestExplainKeepsTheTextAroundATopology(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	selection := topology.ServerSelectionError{Wrapped: context.Canceled, Desc: description.Topology{
		Kind: description.TopologyKindReplicaSetNoPrimary,
		Servers: []description.Server{
			{Addr: address.Address("a:1"), LastError: refused},
			{Addr: address.Address("b:1"), LastError: errors.New("dial b:1: no route")},
			{Addr: address.Address("c:1"), Kind: description.ServerKindRSSecondary},
		},
	}}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"alone":          {selection, "no primary was found: a:1: connection refused; dial b:1: no route; c:1 is RSSecondary"},
		"with an action": {fmt.Errorf("list indexes: %w", selection), "list indexes: no primary was found: a:1: connection refused; dial b:1: no route; c:1 is RSSecondary"},
		"too early":      {topology.ServerSelectionError{Desc: description.Topology{Servers: []description.Server{{Addr: address.Address("a:1")}}}}, "no primary was found: a:1 has not answered"},
		"no server":      {topology.ServerSelectionError{Wrapped: context.Canceled}, "no server is known: no host of the connection string is a member of the replica set that its option replicaSet names; correct that name, or the hosts"},
		"another error":  {refused, "connection refused"},
	} {
		got := mongox.Explain(t.Context(), test.err)
		if got.Error() != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
