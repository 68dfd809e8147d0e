package mongotest

import (
	"os"
	"path/filepath"
	"testing"
)

// go test runs a test in the directory of its package, and TestMain too.
func TestStandInIsFoundFromEveryModule(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, workspace := range []string{"", "off"} {
		t.Setenv("GOWORK", workspace)
		for _, module := range []string{"pkg", "publisher", "projector"} {
			source, err := standInSource(filepath.Join(root, module))
			if want := filepath.Join(root, "integration", "mongoemu"); err != nil || source != want {
				t.Errorf("from %s with GOWORK=%q: %q, %v; want %s", module, workspace, source, err, want)
				continue
			}
			if _, err := os.Stat(filepath.Join(source, "cmd", "mongoemu")); err != nil {
				t.Errorf("from %s: %v", module, err)
			}
		}
	}
	if source, err := standInSource(t.TempDir()); err == nil {
		t.Errorf("from a directory without a module: %q", source)
	}
}
