package mongox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
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
	useMongoDB       = "use MongoDB " + oldest + " or later, such as Atlas"
)

// ErrTooOld says that a server is older than the oldest supported version. Some older servers
// answer until a command needs something that they lack, such as $$NOW in a delete, or
// allowDiskUse of a find.
var ErrTooOld = errors.New("it is older than MongoDB " + oldest)

const (
	// oldest is the oldest supported version, and oldestWire the newest version of the wire
	// protocol that it speaks (https://jira.mongodb.org/browse/DRIVERS-2314).
	oldest     = "6.0"
	oldestWire = 17
)

// Unusable reports whether an error says that a server cannot be used, and that waiting for
// it does not help: it is no replica set, another product, or too old.
func Unusable(err error) bool {
	return errors.Is(err, ErrNoReplicaSet) || errors.Is(err, ErrNotMongoDB) || errors.Is(err, ErrTooOld)
}

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

// checkVersion recognizes a server that is too old by its answer to hello.
func checkVersion(ctx context.Context, client *mongo.Client, hello bson.Raw) error {
	if wire, _ := hello.Lookup("maxWireVersion").AsInt64OK(); wire >= oldestWire {
		return nil
	}
	info, err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Raw()
	if err != nil {
		return err
	}
	version, _ := info.Lookup("version").StringValueOK()
	return fmt.Errorf("%w: its version is %s; upgrade it", ErrTooOld, version)
}
