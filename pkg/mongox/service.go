package mongox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// ErrNotMongoDB says that a service which speaks MongoDB's protocol is another product.
// docs/mongodb.md says what each lacks.
var ErrNotMongoDB = errors.New("it is Amazon DocumentDB, Azure DocumentDB or Cosmos DB, whose change streams lack what Penstock needs; use MongoDB " + oldest + " or later, such as Atlas")

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

// otherHosts are the ends of the host names of other products.
var otherHosts = []string{".docdb.amazonaws.com", ".docdb-elastic.amazonaws.com", ".cosmos.azure.com", ".documents.azure.com"}

// checkHosts recognizes another product by the names of its hosts.
func checkHosts(hosts []string) error {
	for _, address := range hosts {
		host, _, _ := strings.Cut(strings.ToLower(address), ":")
		for _, suffix := range otherHosts {
			if strings.HasSuffix(host, suffix) {
				return fmt.Errorf("%s: %w", host, ErrNotMongoDB)
			}
		}
	}
	return nil
}

// checkHello recognizes another product by its answer to hello. What Azure DocumentDB puts
// there is described in https://github.com/documentdb/documentdb/issues/672; Cosmos DB (RU)
// names its replica set globaldb and gives replies a type.
func checkHello(hello bson.Raw) error {
	for _, path := range [][]string{{"internal", "documentdb_versions"}, {"internal", "cosmos_versions"}, {"_t"}} {
		if _, err := hello.LookupErr(path...); err == nil {
			return ErrNotMongoDB
		}
	}
	if name, _ := hello.Lookup("setName").StringValueOK(); name == "globaldb" {
		return ErrNotMongoDB
	}
	return nil
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
