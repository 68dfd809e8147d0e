package mongox_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
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
		hello := mongotest.Hello(bson.E{Key: "setName", Value: "rs0"}, bson.E{Key: "isWritablePrimary", Value: test.primary})
		err := mongox.CheckReplicaSet(t.Context(), mongotest.NewReplies(t, ok, hello).Client)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, mongox.ErrNoReplicaSet)):
			t.Errorf("%s: says %v", name, err)
		}
	}
}

// TestOldServersAreRefused: the version is read only if the server is too old.
func TestOldServersAreRefused(t *testing.T) {
	t.Parallel()
	ok := bson.D{{Key: "ok", Value: 1}}
	for wire, want := range map[int]string{
		9:  "it is older than MongoDB 6.0: its version is 4.3.1; upgrade it",
		16: "it is older than MongoDB 6.0: its version is 4.3.1; upgrade it",
		17: "",
		25: "",
	} {
		hello := append(bson.D{{Key: "setName", Value: "rs0"}, {Key: "maxWireVersion", Value: wire}}, ok...)
		err := mongox.CheckReplicaSet(t.Context(), mongotest.NewReplies(t, ok, hello, append(bson.D{{Key: "version", Value: "4.3.1"}}, ok...)).Client)
		switch {
		case want == "" && err != nil:
			t.Errorf("wire version %d: %v", wire, err)
		case want != "" && (!errors.Is(err, mongox.ErrTooOld) || !mongox.Unusable(err) || err.Error() != want):
			t.Errorf("wire version %d: says %v", wire, err)
		}
	}
}

// TestReachAsksOnceMore: the first request gets no answer in time, as if the machine had
// stood still. The next one is answered, or not.
func TestReachAsksOnceMore(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	for name, answers := range map[string]bool{"an answer to the second": true, "no answer": false} {
		synctest.Test(t, func(t *testing.T) {
			ok, hello := bson.D{{Key: "ok", Value: 1}}, mongotest.Hello(bson.E{Key: "setName", Value: "rs0"})
			server := mongotest.NewReplies(t, ok, hello)
			server.Ignore("ping")
			if answers {
				time.AfterFunc(limit/2, func() { server.Ignore("") })
			}
			start := time.Now()
			err := mongox.Reach(t.Context(), server.Client)
			switch {
			case answers && err != nil:
				t.Errorf("%s: says %v", name, err)
			case answers && server.Commands() != 3:
				t.Errorf("%s: asked %d times, not by ping, ping and hello", name, server.Commands())
			case !answers && !errors.Is(err, mongox.ErrNoAnswer):
				t.Errorf("%s: says %v, not that the server does not answer", name, err)
			case !answers && time.Since(start) != limit+2*time.Second:
				t.Errorf("%s: gave up after %s", name, time.Since(start))
			}
		})
	}
}
