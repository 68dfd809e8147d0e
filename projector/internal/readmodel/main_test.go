package readmodel

import (
	"os"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

// server is the MongoDB stand-in.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }
