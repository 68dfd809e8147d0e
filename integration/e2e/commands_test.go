package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// command runs a program with only these arguments and variables, without the test's
// environment. It returns the exit code and the output.
func command(t *testing.T, program string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems strings.Builder
	c := exec.CommandContext(t.Context(), program, args...)
	c.Env = append([]string{"HOME=" + t.TempDir()}, env...)
	c.Stdout, c.Stderr = &out, &problems
	err := c.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	ran.add(program, args, c.ProcessState.ExitCode())
	return c.ProcessState.ExitCode(), out.String(), problems.String()
}

// TestCommandLine checks that both programs have one tree of commands, that the service is
// the default, and that a command asks only for the settings that it uses.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	projections := filepath.Join(t.TempDir(), "projections.yaml")
	write := func(text string) {
		if err := os.WriteFile(projections, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(largeReadModels)
	for _, test := range []struct {
		name           string
		program        string
		env, args      []string
		code           int
		stdout, stderr string
	}{
		{"help of the projector", suite.services.Projector, nil, []string{"--help"}, 0, "projector <command>", ""},
		{"help of the publisher", suite.services.Publisher, nil, []string{"--help"}, 0, "publisher <command>", ""},
		{"service by default", suite.services.Projector, nil, nil, 2, "", "AZURE_SERVICEBUS_TOPIC_NAME is not set"},
		{"service by name", suite.services.Projector, nil, []string{"run"}, 2, "", "AZURE_SERVICEBUS_TOPIC_NAME is not set"},
		{"publisher by default", suite.services.Publisher, nil, nil, 2, "", "AZURE_SERVICEBUS_TOPIC_NAME is not set"},
		{"publisher by name", suite.services.Publisher, nil, []string{"run"}, 2, "", "MONGODB_URI is not set"},
		{"unknown command", suite.services.Publisher, nil, []string{"flow"}, 2, "", "unexpected argument flow"},
		{"check of a file", suite.services.Projector, nil, []string{"check", projections}, 0, "the projections are right: 1\n", ""},
		{"check of everything", suite.services.Projector, []string{"PENSTOCK_PROJECTIONS=" + projections}, []string{"check"}, 2, "", "MONGODB_URI is not set"},
		{"infer", suite.services.Projector, nil, []string{"infer", "0"}, 2, "", "<events> is 0: use 1 to 1000000"},
		{"infer without a store", suite.services.Projector, []string{"MONGODB_URI=mongodb://127.0.0.1:1/?replicaSet=rs0&serverSelectionTimeoutMS=100"}, []string{"infer"}, 1, "", "projector infer: read a sample of mongodb://127.0.0.1:1"},
	} {
		code, stdout, stderr := command(t, test.program, test.env, test.args...)
		if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) || (test.stderr == "") != (stderr == "") {
			t.Errorf("%s: status %d, stdout %q, stderr %q", test.name, code, stdout, stderr)
		}
	}
	write(strings.Replace(largeReadModels, "Counted", "[", 1))
	if code, _, stderr := command(t, suite.services.Projector, nil, "check", projections); code != 2 || !strings.Contains(stderr, "projections.yaml:") {
		t.Errorf("a broken file: status %d, %s", code, stderr)
	}
}
