package operate

import (
	"os"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

// server runs the stand-in of MongoDB for the tests that need it.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }
