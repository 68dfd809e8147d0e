package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// While the API server is unavailable, a kubelet still restarts containers. A publisher that
// starts then must wait for the Lease. When the API server is back, only such publishers
// exist, and one of them leads.
func TestPublishersRestartedDuringAnOutageOfTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newLonelyScenario(t, short)
	first := s.awaitTermAfter(0)
	outages["killed"].leave(s)
	s.await("the end of the term", func() bool { return s.ended(first.leader.Name) == 1 })
	for n := range publishers {
		process := s.process(publisher(n))
		if process.Name == first.leader.Name {
			process.Kill()
		} else {
			must(t, process.Signal(syscall.SIGTERM))
			s.exits(process)
		}
		restarted := s.startPublisher(process.Name)
		s.reportsOutage(restarted)
	}
	if epoch, _ := s.claimed(); epoch != first.epoch {
		t.Errorf("epoch %d was claimed without an API server", epoch)
	}
	outages["killed"].back(s)
	s.awaitTermAfter(first.epoch)
	s.ready()
	_, late := s.invariants()
	s.neverLate(late)
}

// reportsOutage waits until a publisher reports that it cannot take part in the election: it
// is not ready and says why, its log has the error, and its metric says that it does not
// lead. Nothing may restart it, so it must be alive.
func (s *scenario) reportsOutage(process *harness.Process) {
	s.t.Helper()
	s.await(process.Name+" to be unready because of the lease", func() bool {
		code, body := s.probe(process, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "lease: lease not reached")
	})
	if code, body := s.probe(process, "/livez"); code != http.StatusOK {
		s.t.Errorf("%s is not alive without an API server: %s", process.Name, body)
	}
	s.logs(process, "lease not reached")
	metrics, err := process.Metrics(s.t.Context())
	must(s.t, err)
	if metrics.Sum("penstock_publisher_leader") != 0 {
		s.t.Errorf("%s reports that it leads without an API server", process.Name)
	}
}

// statusWithoutLeader checks that the command shows what it can read without an API server,
// and says what it cannot read.
func (s *scenario) statusWithoutLeader(last reign) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout)
	defer cancel()
	out, err := s.Publisher(ctx, "status")
	must(s.t, err)
	for _, words := range []string{"unknown: ", "lease", fmt.Sprint(last.epoch)} {
		if out.Status != 1 || !strings.Contains(string(out.Stdout), words) {
			s.t.Errorf("publisher status ended with %d and does not say %q:\n%s%s", out.Status, words, out.Stdout, out.Stderr)
		}
	}
}

// probe requests a path of a process's admin server.
func (s *scenario) probe(process *harness.Process, path string) (code int, body string) {
	s.t.Helper()
	code, text, err := process.Get(s.t.Context(), path, nil)
	if err != nil {
		return 0, err.Error() // the process may not listen yet
	}
	return code, string(text)
}

// logs waits until a process has logged a text.
func (s *scenario) logs(process *harness.Process, text string) {
	s.t.Helper()
	s.await(fmt.Sprintf("%s to log %q", process.Name, text), func() bool {
		log, err := os.ReadFile(process.Log)
		must(s.t, err)
		return strings.Contains(string(log), text)
	})
}
