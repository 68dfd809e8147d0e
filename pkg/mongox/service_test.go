package mongox_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/secret"
)

func TestOtherProductsAreRefusedByTheirHello(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hello bson.D
		want  string // empty for MongoDB
	}{
		"replica set": {bson.D{{Key: "setName", Value: "rs0"}, {Key: "me", Value: "db-0.example:27017"}, {Key: "hosts", Value: bson.A{"db-0.example:27017"}}}, ""},
		"mongos":      {bson.D{{Key: "msg", Value: "isdbgrid"}}, ""},
		"Cosmos DB vCore": {bson.D{
			{Key: "msg", Value: "isdbgrid"}, {Key: "setName", Value: "globaldb"}, {Key: "internal", Value: bson.D{{Key: "cosmos_versions", Value: bson.A{"1.104-1"}}}},
		}, "it is Amazon"},
		"Azure DocumentDB": {bson.D{
			{Key: "msg", Value: "isdbgrid"}, {Key: "internal", Value: bson.D{{Key: "documentdb_versions", Value: bson.A{"1.111-0"}}}},
		}, "it is Amazon"},
		"Cosmos DB RU":          {bson.D{{Key: "setName", Value: "globaldb"}}, "it is Amazon"},
		"Cosmos DB RU, by type": {bson.D{{Key: "setName", Value: "x"}, {Key: "_t", Value: "HelloResponse"}}, "it is Amazon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ok := bson.D{{Key: "ok", Value: 1}}
			err := mongox.CheckReplicaSet(t.Context(), mongotest.NewReplies(t, ok, mongotest.Hello(test.hello...)).Client)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (!errors.Is(err, mongox.ErrNotMongoDB) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "use MongoDB 6.0")):
				t.Errorf("says %v", err)
			}
		})
	}
}

func TestOtherProductsAreRefusedByTheirHosts(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"mongodb://u:s3cret@shop.cluster-abc.eu-west-1.docdb.amazonaws.com:27017/?tls=true": "shop.cluster-abc.eu-west-1.docdb.amazonaws.com",
		"mongodb://u:s3cret@shop.mongo.cosmos.azure.com:10255/?tls=true":                    "shop.mongo.cosmos.azure.com",
		"mongodb://u:s3cret@c.shop.mongocluster.cosmos.azure.com:10260/?tls=true":           "c.shop.mongocluster.cosmos.azure.com",
	} {
		c := valid()
		c.URI = secret.Text(uri)
		err := c.Check()
		if err == nil || !errors.Is(err, mongox.ErrNotMongoDB) || !strings.HasPrefix(err.Error(), "MONGODB_URI cannot be used: "+want+": it is Amazon") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
