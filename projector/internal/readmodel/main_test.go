package readmodel

import (
	"os"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

// server is the MongoDB stand-in, for what the fake database could get wrong.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }
