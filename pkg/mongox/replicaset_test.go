package mongox_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
)

// TestDirectConnectionToASecondaryIsReported: over a direct connection, the driver reads
// from any server. The member may become the primary, so the error is not
// ErrNoReplicaSet.
func TestDirectConnectionToASecondaryIsReported(t *testing.T) {
	t.Parallel()
	ok := bson.D{{Key: "ok", Value: 1}}
	for name, test := range map[string]struct {
		primary bool
		want    string // empty if the server will do
	}{"primary": {true, ""}, "secondary": {false, "instead of directConnection"}} {
		hello := bson.D{{Key: "ok", Value: 1}, {Key: "setName", Value: "rs0"}, {Key: "isWritablePrimary", Value: test.primary}}
		err := mongox.CheckReplicaSet(t.Context(), mongoxtest.NewServer(t, ok, hello).Client)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, mongox.ErrNoReplicaSet)):
			t.Errorf("%s: says %v", name, err)
		}
	}
}
