package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// suite is shared by all scenarios.
var suite struct {
	kind     harness.Kind
	services harness.Binaries
	// open opens a backend for a pipeline of that many events, and close ends what the backends
	// share.
	open  func(ctx context.Context, o harness.TopicOptions, events int) (backend, error)
	close func() error
	// alone says that the backends have only enough connections for one scenario at a time.
	alone bool
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run prepares the suite and runs the tests. If the preparation fails, it reports that once
// instead of in every test.
func run(m *testing.M) (status int) {
	// A signal stops the preparation cleanly, so containers are removed. Later, a signal
	// ends the program, as in every test.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	closeSuite, err := prepare(ctx)
	stop()
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status = m.Run()
	if status == 0 && whole() {
		missing, err := notRun(ctx)
		if err != nil {
			missing = append(missing, err.Error())
		}
		for _, problem := range missing {
			fmt.Fprintln(os.Stderr, "no test runs it through the program:", problem)
			status = 1
		}
	}
	if err := closeSuite(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	return status
}

// whole reports whether all tests have run. Some run on the stand-ins only.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return suite.kind == harness.KindEmbedded && !testing.Short()
}

// prepare selects the backends and builds the services. The returned function removes both.
func prepare(ctx context.Context) (func() error, error) {
	var err error
	if suite.kind, err = harness.SelectKind(os.Getenv); err != nil {
		return nil, err
	}
	if err = openBackends(ctx, suite.kind, os.Getenv); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "penstock-e2e-")
	if err == nil {
		suite.services, err = harness.Build(ctx, dir)
	}
	closeSuite := func() error {
		_ = os.RemoveAll(dir)
		return suite.close()
	}
	if err != nil {
		_ = closeSuite()
		return nil, err
	}
	return closeSuite, nil
}

// inParallel lets the test run in parallel, unless the backends have only enough connections
// for one test.
func inParallel(t *testing.T) {
	t.Helper()
	if !suite.alone {
		t.Parallel()
	}
}

// needsProcesses skips a test that only processes can run, if -short leaves these out. Tests
// that take a second or less need not call it.
func needsProcesses(t *testing.T) {
	t.Helper()
	if testing.Short() && suite.kind == harness.KindEmbedded {
		t.Skip("it needs processes, and -short leaves them out: run make test-all")
	}
}

// needsStandIns skips a test that runs only on the stand-ins, and gives the reason.
func needsStandIns(t *testing.T, reason string) {
	t.Helper()
	if suite.kind != harness.KindEmbedded {
		t.Skip(reason)
	}
}

// settleTimeout bounds the wait for a condition, and the time without any new right read
// model. A projector that is killed in a transaction leaves it open. Others cannot write
// the same documents until the server ends the transaction, by default after 60 to 90 s. The
// stand-in has the same default, so each kill may cost a minute and a half.
func settleTimeout() time.Duration {
	if suite.kind == harness.KindEmbedded {
		return 3 * time.Minute
	}
	// A real broker may be far away, and an emulator may be slow.
	return 5 * time.Minute
}

// pollInterval is the interval at which a scenario checks a condition.
func pollInterval() time.Duration {
	if suite.kind == harness.KindEmbedded {
		return 20 * time.Millisecond
	}
	// The tier Standard bills each look at a topic as ten messages.
	return 250 * time.Millisecond
}
