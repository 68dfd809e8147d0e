//go:build linux

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/penstock-cdc/penstock/integration/controlplane"
	"github.com/penstock-cdc/penstock/integration/node"
	"github.com/penstock-cdc/penstock/integration/proc"
)

// chart is the chart that all scenarios install.
const chart = "../../charts/penstock"

// imagesVariable names the folder of the services' images, which make builds.
const imagesVariable = "PENSTOCK_IMAGES"

// suite is shared by all tests: a control plane, a node, and a table of results.
var suite struct {
	dir     string
	tools   string
	control *controlplane.ControlPlane
	node    *node.Node
	client  *kubernetes.Clientset
	table   table
}

func TestMain(m *testing.M) {
	if _, err := node.Tools(); errors.Is(err, node.ErrNoTools) {
		os.Exit(m.Run())
	}
	code, inside, err := node.Enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if inside {
		code = m.Run()
		stop()
		fmt.Print(suite.table.String())
	}
	os.Exit(code)
}

// shared starts the shared servers.
var shared = sync.OnceValue(func() error {
	tools, err := node.Tools()
	if err != nil {
		return err
	}
	kube, err := controlplane.Tools()
	if err != nil {
		return err
	}
	suite.tools, suite.dir = tools, os.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	begun := time.Now()
	control, err := makeFolder("control")
	if err != nil {
		return err
	}
	suite.control, err = controlplane.Start(ctx, controlplane.Options{Tools: kube, Dir: control, NodeAddress: node.Address})
	if err != nil {
		return err
	}
	if suite.client, err = kubernetes.NewForConfig(suite.control.Admin()); err != nil {
		return err
	}
	dir, err := makeFolder("node")
	if err != nil {
		return err
	}
	suite.node, err = node.Start(ctx, node.Options{Tools: tools, Dir: dir, Control: suite.control})
	if err != nil {
		return err
	}
	if err := importImages(ctx); err != nil {
		return err
	}
	suite.table.add(row{what: "start of a control plane and a node", took: time.Since(begun)})
	return nil
})

// start skips the test if this machine cannot run a node.
func start(t *testing.T) {
	t.Helper()
	err := shared()
	if errors.Is(err, node.ErrNoTools) {
		t.Skip(err)
	}
	must(t, err)
}

func stop() {
	if suite.node != nil {
		suite.node.Stop()
	}
	if suite.control != nil {
		suite.control.Stop()
	}
}

func makeFolder(name string) (string, error) {
	path := filepath.Join(suite.dir, name)
	return path, os.Mkdir(path, 0o700)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// settleTimeout bounds each wait. A killed projector can leave a transaction open for a minute
// and a half, and crashed containers are restarted after pauses of up to a minute and more.
const settleTimeout = 3 * time.Minute

// await polls until holds returns true. After settleTimeout it fails the test with the last
// text of holds.
func await(t *testing.T, what string, holds func() (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), settleTimeout, fmt.Errorf("not within %s", settleTimeout))
	defer cancel()
	var state string
	if err := proc.Await(ctx, 100*time.Millisecond, what, func() (done bool, _ error) {
		done, state = holds()
		return done, nil
	}); err != nil {
		t.Fatalf("%v: %s", err, state)
	}
}
