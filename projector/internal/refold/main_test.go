package refold

import (
	"os"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

// server is for the tests that fold with the real parts.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }
