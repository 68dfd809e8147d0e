package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// TestProjectorsArePaused checks that every projector releases its sessions and receives
// nothing until it is resumed, and that it stays ready. A projector that starts during the
// pause is paused too.
func TestProjectorsArePaused(t *testing.T) { scene(t, projectorsArePaused) }

func projectorsArePaused(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.start(1, 1)
	s.insert(counted("a", 1, one))
	s.await("a read model", func() bool { return s.count("a") == "n=1 after event 1" })
	command := func(code int, args ...string) harness.Output {
		t.Helper()
		out, err := s.Projector(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		if out.Status != code {
			t.Fatalf("projector %s: status %d, want %d\n%s%s", strings.Join(args, " "), out.Status, code, out.Stdout, out.Stderr)
		}
		return out
	}
	command(2, "pause", "--yes")
	command(1, "resume", "--yes")
	if out := command(0, "pause", "--yes", "--why=a migration", "--wait=1m", "--who=eve"); !strings.Contains(string(out.Stdout), "is paused; stopped: ") {
		t.Errorf("pause printed %s", out.Stdout)
	}
	if out := command(0, "audit"); !strings.Contains(string(out.Stdout), "eve@") {
		t.Errorf("the audit has\n%s", out.Stdout)
	}
	active := func(name string) float64 { return s.metric(name, "penstock_projector_sessions_active") }
	if n := active("projector-0"); n != 0 {
		t.Errorf("%v sessions are held in the pause", n)
	}
	s.insert(counted("a", 2, one), counted("b", 1, one))
	s.awaitPublishedEvents(3)
	s.startProjector(1)
	s.ready()
	for _, name := range []string{"projector-0", "projector-1"} {
		if value := s.metric(name, "penstock_projector_paused"); value != 1 || active(name) != 0 {
			t.Errorf("%s: paused %v, %v sessions", name, value, active(name))
		}
	}
	for _, process := range s.Running() {
		if status, text := readiness(t, process); status != http.StatusOK {
			t.Errorf("%s is not ready in the pause: %d %s", process.Name, status, text)
		}
	}
	s.await("both projectors recorded", func() bool {
		out := command(1, "pause", "--yes", "--why=again")
		return strings.Contains(string(out.Stderr), "is paused already")
	})
	if got := s.count("a"); got != "n=1 after event 1" {
		t.Errorf("in the pause the read model is %s", got)
	}
	command(0, "resume", "--yes", "--why=done")
	s.await("the read models", func() bool {
		return s.count("a") == "n=2 after event 2" && s.count("b") == "n=1 after event 1"
	})
}
