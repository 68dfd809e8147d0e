package build_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMakeTestNeedsNoCompiler checks the README's claim that the tests need only Go, git and
// make. The race detector of `make test-all` needs a C compiler. Without one, the same tests
// run without the race detector, and make prints that. `make test` never uses one.
func TestMakeTestNeedsNoCompiler(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	working := filepath.Join(t.TempDir(), "cc")
	write(t, working, "#!/bin/sh\nexit 0\n")
	if quick := commands(t, "test", "CC="+working, "CGO_ENABLED=1"); strings.Contains(quick, "-race") {
		t.Errorf("make test asks for the race detector:\n%s", quick)
	}
	with := commands(t, "test-all", "CC="+working, "CGO_ENABLED=1")
	if got, want := tested(with), tested(commands(t, "test")); got != want {
		t.Errorf("make test-all runs %s, make test %s", got, want)
	}
	if !strings.Contains(with, "go test -race ") || strings.Contains(with, "without the race detector") {
		t.Errorf("with a C compiler:\n%s", with)
	}
	for name, environ := range map[string][]string{
		"a compiler that is missing": {"CC=/nonexistent"},
		"cgo switched off":           {"CC=" + working, "CGO_ENABLED=0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			without := commands(t, "test-all", environ...)
			if strings.Contains(without, "-race") {
				t.Errorf("asks for the race detector:\n%s", without)
			}
			if strings.Count(without, "without the race detector") != 1 {
				t.Errorf("does not say once that the race detector is off:\n%s", without)
			}
			if got, want := tested(without), tested(with); got != want {
				t.Errorf("runs other tests: %s, with a compiler %s", got, want)
			}
		})
	}
}

// commands returns the commands that make would run for a target, in an environment with
// these changes. An empty value removes the variable.
func commands(t *testing.T, target string, environ ...string) string {
	t.Helper()
	dry := exec.CommandContext(t.Context(), "make", "--dry-run", target)
	dry.Dir = filepath.Join("..", "..")
	// The test opens the Makefile itself, because Go repeats a cached test only if a file
	// that the test has opened changes.
	if _, err := os.ReadFile(filepath.Join(dry.Dir, "Makefile")); err != nil {
		t.Fatal(err)
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		// Drop the flags of an outer make, which would change this one.
		if name != "MAKEFLAGS" && name != "MAKEOVERRIDES" && name != "MFLAGS" && !set(name, environ) {
			dry.Env = append(dry.Env, variable)
		}
	}
	for _, variable := range environ {
		if !strings.HasSuffix(variable, "=") {
			dry.Env = append(dry.Env, variable)
		}
	}
	out, err := dry.CombinedOutput()
	if err != nil {
		t.Fatalf("make --dry-run %s: %v\n%s", target, err, out)
	}
	return string(out)
}

func set(name string, environ []string) bool {
	for _, variable := range environ {
		if strings.HasPrefix(variable, name+"=") {
			return true
		}
	}
	return false
}

// tested returns the packages that the test commands name, in order.
func tested(commands string) string {
	var packages []string
	for line := range strings.Lines(commands) {
		if _, args, ok := strings.Cut(line, "go test "); ok {
			packages = append(packages, slices.DeleteFunc(strings.Fields(args), func(arg string) bool { return !strings.HasPrefix(arg, "./") })...)
		}
	}
	slices.Sort(packages)
	return strings.Join(packages, " ")
}

func write(t *testing.T, path, script string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}
