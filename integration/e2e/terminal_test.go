package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// atTerminal runs a program at a pseudo-terminal, types answer when the program asks, and
// returns what the screen shows and the exit status.
func (s *scenario) atTerminal(program, answer string, args ...string) (screen string, status int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append([]string{"HOME=" + s.t.TempDir()}, s.Settings()...)
	terminal, err := pty.Start(command)
	if err != nil {
		s.t.Fatal(err)
	}
	defer terminal.Close()
	var shown bytes.Buffer
	for buffer, asked := make([]byte, 4096), false; ; {
		// The read fails when the program has ended, because then nobody has the terminal.
		n, err := terminal.Read(buffer)
		shown.Write(buffer[:n])
		if err != nil {
			break
		}
		if !asked && bytes.Contains(shown.Bytes(), []byte("[y/N] ")) {
			asked = true
			if _, err := terminal.WriteString(answer); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	if err := command.Wait(); ctx.Err() != nil || err != nil && !errors.As(err, new(*exec.ExitError)) {
		s.t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, shown.String())
	}
	ran.add(program, args, command.ProcessState.ExitCode())
	return strings.ReplaceAll(shown.String(), "\r\n", "\n"), command.ProcessState.ExitCode()
}

// A command asks at a terminal before it changes something. pkg/cli tests the answers.
func TestCommandAsksAtATerminal(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.start(1, 1)
	s.insert(counted("a", 1, one))
	s.awaitPublishedEvents(1)
	s.awaitSaved(s.leader())
	for _, answer := range []struct {
		typed  string
		status int
		ends   string
	}{
		{"n\n", 1, "nothing was changed\n"}, {"\n", 1, "nothing was changed\n"}, {"\x04", 1, "nothing was changed\n"}, {"\x03", 1, ""}, {"y\n", 0, ""},
	} {
		screen, status := s.atTerminal(suite.services.Publisher, answer.typed, "checkpoint", "set", "now", "--why=test")
		before, after, asked := strings.Cut(screen, "Continue? [y/N] ")
		if !asked || status != answer.status || !strings.Contains(before, "This will set checkpoint events") || !strings.HasSuffix(after, answer.ends) {
			t.Errorf("%q: status %d, the screen shows\n%s", answer.typed, status, screen)
		}
	}
	if screen, status := s.atTerminal(suite.services.Publisher, "", "checkpoint", "set", "now", "--why=test", "--yes"); status != 0 || strings.Contains(screen, "[y/N]") {
		t.Errorf("with --yes: status %d, the screen shows\n%s", status, screen)
	}
}
