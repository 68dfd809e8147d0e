package mongotest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// standInSource returns the directory of module mongoemu, for a test that runs in dir.
// It asks the go command, because with -trimpath no path is compiled in. Every module that
// tests with a stand-in requires module pkg, which is beside the folder integration, also without the
// workspace.
func standInSource(dir string) (string, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/penstock-cdc/penstock/pkg")
	list.Dir = dir
	out, err := list.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("find module pkg from %s: %w\n%s", dir, err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("find module pkg from %s: %w", dir, err)
	}
	return filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "integration", "mongoemu"), nil
}
