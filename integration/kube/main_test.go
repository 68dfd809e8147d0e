package kube_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock-cdc/penstock/integration/controlplane"
	"github.com/penstock-cdc/penstock/integration/harness"
)

// suite is shared by all tests.
var suite struct {
	dir     string
	results results
	// namespaces counts the used namespaces.
	namespaces atomic.Int64
	// stopShared stops the shared control plane, if there is one.
	stopShared func()
}

// services are built once for all tests.
var services = sync.OnceValues(func() (harness.Binaries, error) {
	return harness.Build(context.Background(), suite.dir)
})

// shared is the control plane of the tests that do not stop it.
var shared = sync.OnceValues(func() (*controlplane.ControlPlane, error) {
	cp, err := newControlPlane(context.Background(), filepath.Join(suite.dir, "shared"))
	if err == nil {
		suite.stopShared = cp.Stop
	}
	return cp, err
})

func newControlPlane(ctx context.Context, dir string) (*controlplane.ControlPlane, error) {
	tools, err := controlplane.Tools()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return controlplane.Start(ctx, controlplane.Options{Tools: tools, Dir: dir})
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "penstock-kube-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	suite.dir = dir
	code := m.Run()
	if suite.stopShared != nil {
		suite.stopShared()
	}
	suite.results.print(os.Stdout)
	return code
}
