package mongox

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// ErrNotMongoDB says that a service which speaks MongoDB's protocol is another product, and
// what it lacks.
var ErrNotMongoDB = errors.New("it is not MongoDB")

// The products that are recognized, each with the feature that Penstock needs and that is
// missing.
const (
	amazonDocumentDB = "Amazon DocumentDB has no retryable writes and other rules for change streams"
	cosmosRU         = "Azure Cosmos DB for MongoDB (RU) gives neither operation types nor cluster times in its change streams"
	cosmosVCore      = "Azure DocumentDB (Cosmos DB for MongoDB vCore) cannot start a change stream at an operation time, so a scan and the stream after it would leave a gap"
	useMongoDB       = "use MongoDB 6.0 or later, such as Atlas"
)

// services are the products by the suffixes of their host names.
var services = []struct{ suffix, product string }{
	{".docdb.amazonaws.com", amazonDocumentDB},
	{".docdb-elastic.amazonaws.com", amazonDocumentDB},
	{".mongocluster.cosmos.azure.com", cosmosVCore},
	{".mongo.cosmos.azure.com", cosmosRU},
	{".documents.azure.com", cosmosRU},
}

// checkHosts recognizes a product by the names of its hosts.
func checkHosts(hosts []string) error {
	for _, address := range hosts {
		host := address
		if name, _, err := net.SplitHostPort(address); err == nil {
			host = name
		}
		for _, s := range services {
			if strings.HasSuffix(strings.ToLower(host), s.suffix) {
				return fmt.Errorf("%w: %s: %s; %s", ErrNotMongoDB, host, s.product, useMongoDB)
			}
		}
	}
	return nil
}

// checkHello recognizes a product by its answer to hello, whatever its host name is.
func checkHello(hello bson.Raw) error {
	// What Azure DocumentDB puts there is described in
	// https://github.com/documentdb/documentdb/issues/672; older clusters give
	// cosmos_versions.
	for _, field := range []string{"documentdb_versions", "cosmos_versions"} {
		if _, err := hello.LookupErr("internal", field); err == nil {
			return fmt.Errorf("%w: %s; %s", ErrNotMongoDB, cosmosVCore, useMongoDB)
		}
	}
	// Cosmos DB (RU) names its replica set globaldb and gives replies a type.
	if _, err := hello.LookupErr("_t"); err == nil {
		return fmt.Errorf("%w: %s; %s", ErrNotMongoDB, cosmosRU, useMongoDB)
	}
	if name, _ := hello.Lookup("setName").StringValueOK(); name == "globaldb" {
		return fmt.Errorf("%w: %s; %s", ErrNotMongoDB, cosmosRU, useMongoDB)
	}
	var hosts []string
	for _, field := range []string{"me", "primary"} {
		if host, ok := hello.Lookup(field).StringValueOK(); ok {
			hosts = append(hosts, host)
		}
	}
	if members, ok := hello.Lookup("hosts").ArrayOK(); ok {
		values, _ := members.Values()
		for _, v := range values {
			if host, ok := v.StringValueOK(); ok {
				hosts = append(hosts, host)
			}
		}
	}
	return checkHosts(hosts)
}
