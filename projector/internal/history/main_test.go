package history

import (
	"os"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

// server is for the tests with the real event store and read models.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }
