package harness

import (
	"strings"
	"testing"
)

// The connections of all processes of a pipeline, and the test's own, stay within the
// broker's bound.
func TestConnectionsOfAllProcessesStayWithinTheBound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		bound, publishers, projectors int
		publisher, projector          int // 0 means that there are too few
	}{
		{bound: 10, publishers: 1, projectors: 1, publisher: 1, projector: 8},
		{bound: 10, publishers: 2, projectors: 1, publisher: 1, projector: 7},
		{bound: 10, publishers: 1, projectors: 2, publisher: 1, projector: 4},
		{bound: 10, publishers: 2, projectors: 2, publisher: 1, projector: 3},
		{bound: 10, publishers: 2, projectors: 7, publisher: 1, projector: 1},
		{bound: 10, publishers: 2, projectors: 8},
		{bound: 5, publishers: 2, projectors: 2, publisher: 1, projector: 1},
		{bound: 4, publishers: 2, projectors: 2},
		{bound: 1, publishers: 1, projectors: 1},
	} {
		publisher, projector, err := shareConnections(test.bound, test.publishers, test.projectors)
		if publisher != test.publisher || projector != test.projector || (err == nil) != (test.projector > 0) {
			t.Errorf("%+v: a publisher has %d and a projector %d (%v)", test, publisher, projector, err)
		}
		if sum := observerConnections + test.publishers*publisher + test.projectors*projector; sum > test.bound {
			t.Errorf("%+v: %d connections altogether", test, sum)
		}
	}
	if publisher, projector, err := shareConnections(0, 2, 2); publisher != 0 || projector != 0 || err != nil {
		t.Errorf("without a bound: %d and %d (%v), not the services' defaults", publisher, projector, err)
	}
}

// A pipeline does not start more processes than it has planned connections for.
func TestPipelineStartsNoMoreProcessesThanConnectionsAllow(t *testing.T) {
	t.Parallel()
	binary := sleeper(t)
	pipeline, err := NewPipeline(bounded{10}, PipelineOptions{
		Programs: Binaries{Publisher: binary, Projector: binary}, Dir: t.TempDir(),
		PublisherEnv: []string{sleeperVariable + "=1"}, ProjectorEnv: []string{sleeperVariable + "=1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pipeline.Kill)
	for _, start := range []func() (*Process, error){
		func() (*Process, error) { return pipeline.StartPublisher("publisher-0") },
		func() (*Process, error) { return pipeline.StartPublisher("publisher-1") },
		func() (*Process, error) { return pipeline.StartProjector("projector-0") },
		func() (*Process, error) { return pipeline.StartProjector("projector-1") },
	} {
		if _, err := start(); err != nil {
			t.Fatal(err)
		}
	}
	if held := pipeline.heldConnections(); held > 10 {
		t.Errorf("two publishers, two projectors and the test hold %d connections", held)
	}
	if _, err := pipeline.StartProjector("projector-2"); err == nil || !strings.Contains(err.Error(), "which takes 10") {
		t.Errorf("a third projector: %v", err)
	}
	pipeline.processes["projector-0"].Kill()
	if _, err := pipeline.StartProjector("projector-2"); err != nil {
		t.Errorf("a projector in place of a killed one: %v", err)
	}
}

// bounded is a backend without servers, with a bound of connections.
type bounded struct{ connections int }

var _ Backend = bounded{}

func (bounded) MongoURI() string      { return "mongodb://store.invalid" }
func (bounded) Databases() Databases  { return Databases{} }
func (bounded) Bus() Bus              { return Bus{} }
func (b bounded) MaxConnections() int { return b.connections }
func (bounded) Close() error          { return nil }
