package app

import (
	"os"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/mongotest"
)

// server is for the tests that need what the server does.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }
