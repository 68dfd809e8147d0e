package leader_test

import (
	"os"
	"testing"
	"testing/synctest"
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

// pass lets virtual time pass, and waits until all goroutines are blocked. It is for a
// test's own goroutine.
func pass(d time.Duration) {
	sleep(d)
	synctest.Wait()
}
