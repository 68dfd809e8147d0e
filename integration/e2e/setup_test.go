package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A backend that is not available fails the whole suite once, with one sentence.
func TestUnavailableBackendFailsTheSuiteOnce(t *testing.T) {
	inParallel(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"containers": `the backend "containers" needs a Docker engine, and none answers: `,
		"azure":      `PENSTOCK_TEST_BACKEND is "azure": use embedded, containers or external`,
	} {
		t.Run(value, func(t *testing.T) {
			inParallel(t)
			suite := exec.CommandContext(t.Context(), program)
			suite.Env = append(os.Environ(),
				"PENSTOCK_TEST_BACKEND="+value, "DOCKER_HOST=unix://"+filepath.Join(t.TempDir(), "docker.sock"))
			out, err := suite.CombinedOutput()
			if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("ended with %v:\n%s", err, out)
			}
			if said := strings.TrimSpace(string(out)); !strings.HasPrefix(said, want) || strings.Contains(said, "\n") {
				t.Errorf("says\n%s", out)
			}
		})
	}
}
