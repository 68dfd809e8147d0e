package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// publisherCommand runs a command of the publisher with the settings of the publishers.
// Like `kubectl exec` without -t, it gives the command no terminal. It expects the exit
// code.
func (s *scenario) publisherCommand(code int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	out, err := s.Publisher(s.t.Context(), args...)
	if err != nil {
		s.t.Fatal(err)
	}
	if out.Status != code {
		s.t.Fatalf("publisher %s: status %d, want %d\n%s%s", strings.Join(args, " "), out.Status, code, out.Stdout, out.Stderr)
	}
	return string(out.Stdout), string(out.Stderr)
}

// publisherJSON runs a command and decodes its output.
func (s *scenario) publisherJSON(code int, into any, args ...string) {
	s.t.Helper()
	stdout, _ := s.publisherCommand(code, append(args, "--output=json")...)
	if err := json.Unmarshal([]byte(stdout), into); err != nil {
		s.t.Fatalf("publisher %s: %v\n%s", strings.Join(args, " "), err, stdout)
	}
}

// publisherStatus is the part of `publisher status` that tests check.
type publisherStatus struct {
	Leader     string
	Checkpoint struct {
		Epoch    int64
		Position string
	}
	LagSeconds, OplogRunwaySeconds, Quarantined *int64
	OplogComplete                               bool
}

func (s *scenario) publisherStatus(code int) (found publisherStatus) {
	s.t.Helper()
	s.publisherJSON(code, &found, "status")
	return found
}

// published returns how many messages the topic has accepted.
func (s *scenario) published() int {
	s.t.Helper()
	n, err := s.backend.Published()
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// awaitPublishedEvents waits until the topic has accepted n messages.
func (s *scenario) awaitPublishedEvents(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d events published", n), func() bool { return s.published() >= n })
}

func countsWorkload() *workload.Workload {
	return &workload.Workload{Projections: []byte(countsProjection), Collections: []string{"counts"}}
}

var one = bson.D{{Key: "n", Value: int64(1)}}

// TestCheckpointIsMoved checks that an operator can continue publishing at another position,
// with and without running publishers.
func TestCheckpointIsMoved(t *testing.T) { scene(t, checkpointIsMoved) }

func checkpointIsMoved(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	if found := s.publisherStatus(1); found.Leader != "" || found.Checkpoint.Epoch != 0 {
		t.Errorf("without a publisher the status is %+v", found)
	}
	s.start(2, 1)
	s.insert(counted("a", 1, one))
	s.awaitPublishedEvents(1)
	s.awaitSaved(s.leader())
	leader := s.leader().Name
	before := s.publisherStatus(0)
	if !strings.HasPrefix(before.Leader, leader) || before.OplogRunwaySeconds == nil || !before.OplogComplete || before.LagSeconds == nil || *before.LagSeconds > 60 ||
		before.Quarantined == nil || *before.Quarantined != 0 || before.Checkpoint.Position != "change stream after a token" {
		t.Errorf("the status is %+v", before)
	}

	// Nothing is published while no publisher runs, and set now skips what is stored meanwhile.
	for n := range 2 {
		s.stopped(s.process(fmt.Sprintf("publisher-%d", n)))
	}
	s.insert(counted("a", 2, one))
	s.publisherCommand(2, "checkpoint", "set", "now", "--yes")
	s.publisherCommand(2, "checkpoint", "set", "yesterday", "--yes", "--why=x")
	s.publisherCommand(0, "checkpoint", "set", "now", "--yes", "--why=test data", "--who=ada")
	if found := s.publisherStatus(1); found.Checkpoint.Position != "change stream from a time" || found.Checkpoint.Epoch != before.Checkpoint.Epoch+1 {
		t.Errorf("after set now the checkpoint is %+v", found.Checkpoint)
	}
	s.start(2, 0)
	s.await("publishing goes on", func() bool { return s.publisherStatus(0).Checkpoint.Epoch == before.Checkpoint.Epoch+2 })
	s.insert(counted("b", 1, one))
	s.awaitPublishedEvents(2)
	s.awaitLiveSaved()
	if n := s.published(); n != 2 {
		t.Errorf("%d messages, want a/1 and b/1: the checkpoint was set to now", n)
	}

	// Set the checkpoint to the beginning under a running leader: the leader is fenced, and
	// all events are published again.
	epoch := s.epoch()
	if _, stderr := s.publisherCommand(1, "checkpoint", "set", "beginning", "--why=lost topic"); !strings.Contains(stderr, "all events of the store, about 3, are published again") {
		t.Errorf("without --yes: %s", stderr)
	}
	s.publisherCommand(0, "checkpoint", "set", "beginning", "--yes", "--why=lost topic")
	s.insert(counted("c", 1, one))
	s.await("a later term", func() bool { return s.epoch() >= epoch+2 })
	// The status pages name who leads, and the term that the command has ended.
	s.await("the ended term on a status page", func() bool {
		leads, ended := false, false
		for _, process := range s.Running() {
			page := s.statusPage(process)
			leads = leads || slices.Contains(page.rows("Leadership of stream events"), "this process leads")
			terms := page.rows("Last terms of this process")
			ended = ended || len(terms) > 0 && strings.Contains(terms[0], " work_failed ") && strings.Contains(terms[0], "later term")
		}
		return leads && ended
	})
	s.await("the read models", func() bool {
		return s.count("a") == "n=2 after event 2" && s.count("b") == "n=1 after event 1" && s.count("c") == "n=1 after event 1"
	})

	s.steps(
		step{"publisher audit", 0, "lost topic … test data"},
		step{"publisher audit --limit=2", 0, "checkpoint set"},
	)
}

// awaitLiveSaved waits until the leader has saved twice more.
func (s *scenario) awaitLiveSaved() {
	s.t.Helper()
	leader := s.leader().Name
	saves := func() float64 {
		return s.metric(leader, "penstock_publisher_checkpoint_saves_total", "result", "saved")
	}
	enough := saves() + 2
	s.await("the checkpoint saved", func() bool { return saves() >= enough })
}
