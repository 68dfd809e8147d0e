package build_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestContainersNeedAnEngine checks that make test-containers says in one sentence what it
// needs, where no Docker engine answers and none can be started: the client alone is not
// enough.
func TestContainersNeedAnEngine(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	bare := t.TempDir()
	for tool, program := range map[string]string{"dirname": "dirname", "uname": "uname", "id": "id", "docker": "false"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(bare, tool)); err != nil {
			t.Fatal(err)
		}
	}
	script := exec.CommandContext(t.Context(), bash, "../../hack/test-containers.sh", t.TempDir())
	script.Env = []string{"PATH=" + bare}
	out, err := script.CombinedOutput()
	want := "make test-containers needs a Docker engine that answers, or root on Linux with docker.io, iptables and iproute2, to start one\n"
	if err == nil || !strings.HasSuffix(string(out), want) || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v, says %q, want %q", err, out, want)
	}
}
