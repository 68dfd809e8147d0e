package harness

import (
	"fmt"
	"testing"
)

// The sandbox's view reads the running processes while the scenario starts others.
func TestPipelineCanBeReadWhileItStarts(t *testing.T) {
	t.Parallel()
	binary := sleeper(t)
	pipeline, err := NewPipeline(bounded{}, PipelineOptions{
		Programs: Binaries{Publisher: binary, Projector: binary}, Dir: t.TempDir(),
		PublisherEnv: []string{sleeperVariable + "=1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pipeline.Kill)
	started, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for last := 0; ; {
			running := len(pipeline.Running())
			if running < last {
				t.Errorf("%d processes run after %d", running, last)
			}
			last = running
			select {
			case <-started:
				return
			default:
			}
		}
	}()
	for n := range 5 {
		if _, err := pipeline.StartPublisher(fmt.Sprintf("publisher-%d", n)); err != nil {
			t.Error(err)
		}
	}
	close(started)
	<-watched
	if running := len(pipeline.Running()); running != 5 {
		t.Errorf("%d processes run, not 5", running)
	}
}

// The connections of all processes of a pipeline, and the test's own, stay within the
// broker's bound.
func TestConnectionsOfAllProcessesStayWithinTheBound(t *testing.T) {
	t.Parallel()
	for bound, projector := range map[int]int{5: 0, 6: 1, 10: 2, 12: 3} {
		if got := shareOf(Projector, bound); got != projector {
			t.Errorf("of %d connections a projector gets %d, want %d", bound, got, projector)
		}
		if sum := 1 + 2*shareOf(Publisher, bound) + 3*projector; projector > 0 && sum > bound {
			t.Errorf("of %d connections %d are used", bound, sum)
		}
		if _, err := NewPipeline(bounded{bound}, PipelineOptions{Dir: t.TempDir()}); (err == nil) != (projector > 0) {
			t.Errorf("a pipeline with %d connections: %v", bound, err)
		}
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
