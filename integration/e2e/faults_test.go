package e2e_test

import (
	"context"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// standIns returns the scenario's stand-ins, which fail on request. On other backends the test
// is skipped, and says what it needs.
func (s *scenario) standIns(needs string) *harness.Embedded {
	s.t.Helper()
	switch b := s.backend.(type) {
	case *harness.Embedded:
		return b
	case *virtualBackend:
		return b.Embedded
	}
	s.t.Skipf("the backend %q cannot do what this test needs: %s", suite.kind, needs)
	return nil
}

// leader returns the leading publisher.
func (s *scenario) leader() *harness.Process {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	leader, err := s.AwaitLeader(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return leader
}

// epoch returns the epoch that holds the checkpoint.
func (s *scenario) epoch() int64 {
	checkpoint, err := s.state.Collection("checkpoints").FindOne(s.t.Context(), bson.D{}).Raw()
	if err != nil {
		return 0
	}
	epoch, _ := checkpoint.Lookup("epoch").AsInt64OK()
	return epoch
}

// process returns the running process with that name.
func (s *scenario) process(name string) *harness.Process {
	s.t.Helper()
	for _, process := range s.Running() {
		if process.Name == name {
			return process
		}
	}
	s.t.Fatalf("%s does not run", name)
	return nil
}

// awaitSaved waits until the leader has published all stored events and has saved that in
// the checkpoint. The checkpoint's cluster time no longer changes then.
func (s *scenario) awaitSaved(leader *harness.Process) {
	s.t.Helper()
	saves := func() float64 {
		return s.metric(leader.Name, "penstock_publisher_checkpoint_saves_total", "result", "saved")
	}
	s.await("all that is stored published", func() bool {
		stored, err := s.events.CountDocuments(s.t.Context(), bson.D{})
		published, failed := s.backend.Published()
		return err == nil && failed == nil && published == int(stored) &&
			s.metric(leader.Name, "penstock_publisher_checkpoint_window_events") == 0
	})
	// One save may have begun before. The stream's position moves even without events,
	// because the lease is renewed in the same replica set.
	enough := saves() + 2
	s.await("the checkpoint saved", func() bool { return saves() >= enough })
}

// projectors returns the running projectors.
func (s *scenario) projectors() []*harness.Process {
	return slices.DeleteFunc(s.Running(), func(p *harness.Process) bool { return !strings.HasPrefix(p.Name, "projector-") })
}
