package leader_test

import (
	"os"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

// server is the MongoDB stand-in of this package's tests.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// sleep lets virtual time pass, in a goroutine of a synctest bubble.
func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
}
