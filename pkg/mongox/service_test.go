package mongox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/secret"
)

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
