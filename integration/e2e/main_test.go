package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// suite is what all scenarios share.
var suite struct {
	kind     harness.Kind
	backends backends
	services harness.Binaries
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run sets the suite up and runs the tests. What cannot be set up is told once,
// here, and not by every test.
func run(m *testing.M) (status int) {
	// A signal ends the preparation cleanly: containers are removed again. Later it
	// ends the program, as it does every test's.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	closeSuite, err := open(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status = m.Run()
	if err := closeSuite(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	return status
}

// open selects the backends and builds the services. What it returns ends both.
func open(ctx context.Context) (func() error, error) {
	var err error
	if suite.kind, err = harness.SelectKind(os.Getenv); err != nil {
		return nil, err
	}
	if suite.backends, err = openBackends(ctx, suite.kind, os.Getenv); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "penstock-e2e-")
	if err == nil {
		suite.services, err = harness.Build(ctx, dir)
	}
	closeSuite := func() error {
		_ = os.RemoveAll(dir)
		return suite.backends.Close()
	}
	if err != nil {
		_ = closeSuite()
		return nil, err
	}
	return closeSuite, nil
}

// inParallel lets the test run beside others, unless the backend's connections are
// enough for one at a time only.
func inParallel(t *testing.T) {
	t.Helper()
	if suite.backends.MaxConnections() == 0 {
		t.Parallel()
	}
}

// settleTimeout bounds the wait for something to happen, and the time in which no read
// model comes right. A projector that is killed in the middle of a transaction leaves
// it open, and what it has written cannot be written by others until the server ends
// it, which by default is after 60 s. The stand-in has the server's default, so each
// kill may cost a minute.
func settleTimeout() time.Duration {
	if suite.kind == harness.KindEmbedded {
		return 3 * time.Minute
	}
	// A real broker may be far away, or an emulator that is not made for speed.
	return 5 * time.Minute
}

// pollInterval is how often a scenario looks whether a condition holds.
func pollInterval() time.Duration {
	if suite.kind == harness.KindEmbedded {
		return 20 * time.Millisecond
	}
	// The tier Standard counts each look at a topic as ten messages.
	return 250 * time.Millisecond
}
