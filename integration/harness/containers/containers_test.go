package containers_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness/containers"
)

// Without an engine, the error is one sentence with the remedy.
func TestStartWithoutEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "docker.sock"))
	started, err := containers.Start(t.Context(), os.Getenv)
	if err == nil {
		_ = started.Close()
		t.Fatal("started without an engine")
	}
	if !errors.Is(err, containers.ErrNoEngine) {
		t.Errorf("%v is not ErrNoEngine", err)
	}
	message := err.Error()
	if !strings.HasPrefix(message, `the backend "containers" needs a Docker engine, and none answers: `) ||
		!strings.HasSuffix(message, "; start one, or leave PENSTOCK_TEST_BACKEND unset") || strings.Contains(message, "\n") {
		t.Errorf("says %s", message)
	}
}
