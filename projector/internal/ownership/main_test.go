package ownership_test

import (
	"os"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/mongotest"
)

// server is the MongoDB stand-in.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }
