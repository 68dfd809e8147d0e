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

// asks checks the answers to the question of a command that can be repeated. effect is what
// the question says, and done what the command prints after the change.
func (s *scenario) asks(program, effect, done string, run func(ctx context.Context, args ...string) (harness.Output, error), command ...string) {
	s.t.Helper()
	question := "This will " + effect
	const unchanged = "nothing was changed\n"
	for _, no := range []struct{ name, typed, echo string }{
		{"n", "n\n", "n\n"},
		{"Enter", "\n", "\n"},
		{"another word", "yesterday\n", "yesterday\n"},
		{"end of input", "\x04", "\n"},
	} {
		screen, status := s.atTerminal(program, no.typed, command...)
		before, after, asked := strings.Cut(screen, "Continue? [y/N] ")
		if !asked || status != 1 || !strings.Contains(before, question) || !strings.HasPrefix(after, no.echo) || !strings.HasSuffix(after, unchanged) {
			s.t.Errorf("%s: status %d, the screen shows\n%s", no.name, status, screen)
		}
	}
	if screen, status := s.atTerminal(program, "\x03", command...); status != 1 || strings.Contains(screen, done) {
		s.t.Errorf("Ctrl-C: status %d, the screen shows\n%s", status, screen)
	}
	out, err := run(s.t.Context(), command...)
	if err != nil {
		s.t.Fatal(err)
	}
	if said := string(out.Stderr); out.Status != 1 || strings.Contains(said, "[y/N]") || !strings.Contains(said, "this would "+effect) || !strings.Contains(said, "nothing was changed; repeat it with --yes") {
		s.t.Errorf("without a terminal: status %d\n%s", out.Status, said)
	}
	for _, yes := range []string{"y\n", "YES\n"} {
		if screen, status := s.atTerminal(program, yes, command...); status != 0 || !strings.Contains(screen, done) {
			s.t.Errorf("%q: status %d, the screen shows\n%s", yes, status, screen)
		}
	}
	if screen, status := s.atTerminal(program, "", append(command, "--yes")...); status != 0 || strings.Contains(screen, "[y/N]") {
		s.t.Errorf("with --yes: status %d, the screen shows\n%s", status, screen)
	}
}

func TestPublisherAsksAtATerminal(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.start(1, 1)
	s.insert(counted("a", 1, one))
	s.awaitPublishedEvents(1)
	s.awaitSaved(s.leader())
	s.asks(suite.services.Publisher, "remove the position of checkpoint events", "checkpoint events is at: ", s.Publisher, "checkpoint", "reset", "--why=test")
}

func TestProjectorAsksAtATerminal(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.start(1, 1)
	s.asks(suite.services.Projector, "verify counts and repair each read model that is wrong", "counts, generation 1: ", s.Projector, "verify", "--repair", "--why=test")
}
