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
