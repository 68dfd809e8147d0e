package chart_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// The chart, and the folder of its sets of values.
const (
	chart  = "../../charts/penstock"
	values = chart + "/ci"
)

// The objects of a release with the name shop.
const (
	releaseName = "shop"
	publisher   = releaseName + "-penstock-publisher"
	projector   = releaseName + "-penstock-projector"
)

// settleTimeout bounds each wait for a condition.
const settleTimeout = 2 * time.Minute

// suite is shared by all tests: a control plane with the custom resources of other projects
// that the chart uses.
var suite struct {
	dir     string
	control *controlplane.ControlPlane
}

// shared starts the shared servers.
var shared = sync.OnceValue(func() error {
	tools, err := controlplane.Tools()
	if err != nil {
		return err
	}
	ctx := context.Background()
	suite.control, err = controlplane.Start(ctx, controlplane.Options{Tools: tools, Dir: suite.dir})
	if err != nil {
		return err
	}
	for _, file := range []string{"crds-keda.yaml", "crds-prometheus.yaml"} {
		if err := define(ctx, filepath.Join(tools, file)); err != nil {
			return err
		}
	}
	return nil
})

// start skips the test if no control plane is available.
func start(t *testing.T) {
	t.Helper()
	err := shared()
	if errors.Is(err, controlplane.ErrNoTools) {
		t.Skip(err)
	}
	must(t, err)
}

func TestMain(m *testing.M) {
	if addresses, ok := os.LookupEnv(addressesVariable); ok {
		os.Exit(curl(addresses, os.Args[1:]))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "penstock-chart-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	suite.dir = dir
	code := m.Run()
	if suite.control != nil {
		suite.control.Stop()
	}
	return code
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
