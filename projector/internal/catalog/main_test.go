package catalog_test

import (
	"os"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

// server and mongos are the MongoDB stand-ins of this package's tests.
var (
	server mongotest.Server
	mongos = mongotest.Server{Sharded: true}
)

func TestMain(m *testing.M) { os.Exit(server.Run(m, &mongos)) }
