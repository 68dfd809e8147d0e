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

// TestServersThatCannotBeUsedAreRefusedByTheirHello: over a direct connection, the driver reads
// from any server. A secondary may become the primary, so its error is not ErrNoReplicaSet. The
// version is read only if the server is too old.
func TestServersThatCannotBeUsedAreRefusedByTheirHello(t *testing.T) {
	t.Parallel()
	field := func(name string, value any) bson.E { return bson.E{Key: name, Value: value} }
	internal := func(name string) bson.E { return field("internal", bson.D{field(name, bson.A{"1.104-1"})}) }
	set, mongos := field("setName", "rs0"), field("msg", "isdbgrid")
	const old, other = "it is older than MongoDB 6.0: its version is 4.3.1; upgrade it", "it is Amazon"
	for name, test := range map[string]struct {
		hello bson.D
		want  string // empty if the server will do
		class error
	}{
		"replica set":           {bson.D{set, field("me", "db-0.example:27017"), field("hosts", bson.A{"db-0.example:27017"})}, "", nil},
		"mongos":                {bson.D{mongos}, "", nil},
		"primary":               {bson.D{set, field("isWritablePrimary", true)}, "", nil},
		"secondary":             {bson.D{set, field("isWritablePrimary", false)}, "instead of directConnection", mongox.ErrNotPrimary},
		"wire version 9":        {bson.D{set, field("maxWireVersion", 9)}, old, mongox.ErrTooOld},
		"wire version 16":       {bson.D{set, field("maxWireVersion", 16)}, old, mongox.ErrTooOld},
		"wire version 25":       {bson.D{set, field("maxWireVersion", 25)}, "", nil},
		"Cosmos DB vCore":       {bson.D{mongos, field("setName", "globaldb"), internal("cosmos_versions")}, other, mongox.ErrNotMongoDB},
		"Azure DocumentDB":      {bson.D{mongos, internal("documentdb_versions")}, other, mongox.ErrNotMongoDB},
		"Cosmos DB RU":          {bson.D{field("setName", "globaldb")}, other, mongox.ErrNotMongoDB},
		"Cosmos DB RU, by type": {bson.D{field("setName", "x"), field("_t", "HelloResponse")}, other, mongox.ErrNotMongoDB},
	} {
		hello := test.hello
		if hello[len(hello)-1].Key == "maxWireVersion" {
			hello = append(hello, field("ok", 1))
		} else {
			hello = mongotest.Hello(hello...)
		}
		err := mongox.CheckReplicaSet(t.Context(), mongotest.NewReplies(t, bson.D{field("ok", 1)}, hello, bson.D{field("ok", 1), field("version", "4.3.1")}).Client)
		switch {
		case test.want == "" && err == nil:
		case test.want == "" || err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, mongox.ErrNoReplicaSet):
			t.Errorf("%s: says %v", name, err)
		case !errors.Is(err, test.class) && test.class != nil, test.want == old && (err.Error() != old || !mongox.Unusable(err)):
			t.Errorf("%s: says %v", name, err)
		case test.want == other && !strings.Contains(err.Error(), "use MongoDB 6.0"):
			t.Errorf("%s: says %v", name, err)
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
