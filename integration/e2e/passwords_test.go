package e2e_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/pkg/obs"
)

// withUsers is a backend whose event store demands a password. The test itself is the user
// operator.
type withUsers struct{ *harness.Embedded }

func (b withUsers) MongoURI() string { return b.uri("operator", "operator") }

// uri is the connection string of a user.
func (b withUsers) uri(name, password string) string {
	return strings.Replace(b.Mongo.URI(), "mongodb://", "mongodb://"+name+":"+password+"@", 1) + "&authSource=admin"
}

// newScenarioWithUsers starts no service. Each service needs a user and its connection string.
func newScenarioWithUsers(t *testing.T, projectorEnv ...string) (s *scenario, b withUsers) {
	t.Helper()
	const events = 2000
	needsStandIns(t, "it brings stand-ins of its own: users of MongoDB")
	t.Parallel()
	embedded := startWith(t, sbemu.Config{Topics: []sbemu.Topic{{
		Name: "events", Record: 4 * events, DuplicateDetectionWindow: 10 * time.Minute, Subscriptions: []sbemu.Subscription{subscription},
	}}})
	// A refused projector cannot abort its transactions, so the server does.
	embedded.Mongo = mongoemutest.Start(t, mongoemu.Config{
		Users: map[string]string{"operator": "operator"}, TransactionLifetime: 5 * time.Second,
	})
	b = withUsers{embedded}
	return newScenarioOver(t, shop.New(events, 71), b, projectorEnv...), b
}

// set makes a user or changes its password.
func (b withUsers) set(t *testing.T, name, password string) {
	t.Helper()
	if err := b.Mongo.SetUser(name, password); err != nil {
		t.Fatal(err)
	}
}

// reconnectServices drops the connections of the services, and not those of the test.
func (b withUsers) reconnectServices(t *testing.T) {
	t.Helper()
	if n := b.Mongo.DropConnections("penstock-publisher", "penstock-projector"); n == 0 {
		t.Fatal("no connection was dropped")
	}
}

// TestServicesEndIfTheirPasswordIsWrongForTooLong checks that services whose password was
// changed report it, go on trying for PENSTOCK_FATAL_AFTER, and then end: the leader, the
// standby, and the projectors, although nobody can settle the events that they have received.
// A restarted container has the new password.
func TestServicesEndIfTheirPasswordIsWrongForTooLong(t *testing.T) {
	needsProcesses(t)
	s, b := newScenarioWithUsers(t, "PENSTOCK_DRAIN_TIMEOUT=5s")
	b.set(t, "service", "old")
	s.SetEnv("MONGODB_URI="+b.uri("service", "old"), "PENSTOCK_FATAL_AFTER=20s")
	s.start(2, 2)
	s.load(3 * time.Second)
	s.awaitPublished(0.2)

	b.set(t, "service", "new")
	b.reconnectServices(t)
	for _, process := range s.started[:2] {
		s.reportsWrongPassword(process)
	}
	for _, process := range s.started {
		s.endsByWrongPassword(process)
	}

	s.SetEnv("MONGODB_URI=" + b.uri("service", "new"))
	s.start(2, 2)
	s.invariants()
}

// TestProjectorsParkNothingIfTheirPasswordIsWrong checks that projectors whose password was
// changed report it and go on trying. However long that lasts, they park and dead-letter
// nothing, and projectors with the new password continue.
func TestProjectorsParkNothingIfTheirPasswordIsWrong(t *testing.T) {
	needsProcesses(t)
	s, b := newScenarioWithUsers(t)
	b.set(t, "publisher", "other")
	b.set(t, "projector", "old")
	s.SetEnv("MONGODB_URI=" + b.uri("publisher", "other"))
	s.startPublisher(0)
	s.SetEnv("MONGODB_URI=" + b.uri("projector", "old"))
	projectors := []*harness.Process{s.startProjector(0), s.startProjector(1)}
	s.ready()
	s.load(3 * time.Second)
	s.awaitPublished(0.2)

	refused := time.Now()
	b.set(t, "projector", "new")
	b.reconnectServices(t)
	for _, process := range projectors {
		s.reportsWrongPassword(process)
	}
	s.awaitPublished(0.8)
	s.await("refusals that last for some seconds", func() bool { return time.Since(refused) > 6*time.Second })
	if parked := s.parked(); parked != 0 {
		t.Errorf("%d aggregates are parked", parked)
	}
	for _, process := range projectors {
		if !process.Running() {
			t.Fatalf("%s has ended", process.Name)
		}
		// Every session repeats its events several times a second. The lines about it must
		// not fill the log, however long it lasts.
		lines, most := strings.Count(s.log(process), "some events were not projected"), 2+int(time.Since(refused)/obs.RepeatInterval)
		if lines > most {
			t.Errorf("%s logged %d lines about events that were not projected, want at most %d", process.Name, lines, most)
		}
		s.stopped(process)
	}

	s.SetEnv("MONGODB_URI=" + b.uri("projector", "new"))
	s.start(0, 2)
	s.invariants()
}

// endsByWrongPassword waits until a process has ended with status 1, and checks that its log
// has the remedy.
func (s *scenario) endsByWrongPassword(process *harness.Process) {
	s.t.Helper()
	s.await("the end of "+process.Name, func() bool { return !process.Running() })
	if err := process.Err(); err == nil || crashed(err) {
		s.t.Errorf("%s ended with %v, want status 1", process.Name, err)
	}
	if log := s.log(process); !strings.Contains(log, "check the user, the password and authSource in the connection string") {
		s.t.Errorf("%s does not name the remedy:\n%s", process.Name, tail(process.Log))
	}
}

// reportsWrongPassword waits until a process is not ready and says that MongoDB refuses its
// password.
func (s *scenario) reportsWrongPassword(process *harness.Process) {
	s.t.Helper()
	s.await(process.Name+" to report the refusal", func() bool {
		code, body := readiness(s.t, process)
		return code == http.StatusServiceUnavailable && strings.Contains(body, "Authentication failed")
	})
	s.await(process.Name+" to log the refusal", func() bool {
		return strings.Contains(s.log(process), "Authentication failed")
	})
}

// says checks that the page has a sentence that the test follows.
func (p *procedure) says(text string) {
	p.t.Helper()
	if !strings.Contains(p.page, text) {
		p.t.Errorf("docs/operations.md does not say %q", text)
	}
}

// log returns all that a process has logged.
func (s *scenario) log(process *harness.Process) string {
	s.t.Helper()
	log, err := os.ReadFile(process.Log)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(log)
}
