package term

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/pause"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

// pauses stores the pause of a stream in memory.
type pauses struct {
	mu      sync.Mutex
	pause   *pause.Pause
	stopped []string
}

func (p *pauses) set(to *pause.Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pause = to
}

func (p *pauses) Get(context.Context) (*pause.Pause, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pause, nil
}

func (p *pauses) AddStopped(_ context.Context, process string, _ time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = append(p.stopped, process)
	return nil
}

// recorded returns the processes that have been recorded as stopped.
func (p *pauses) recorded() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.stopped)
}

// A paused leader publishes nothing and keeps the lease. After the pause it publishes the
// events that were stored meanwhile, starting at the checkpoint, which may have moved.
func TestPausedLeaderKeepsTheLeaseAndPublishesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := newSetup(t, random()), &pauses{}
		s.runner.options.Pausing = pause.NewSwitch(p, "", zerolog.Nop())
		ctx, cancel := context.WithCancel(t.Context())
		var beside sync.WaitGroup
		defer beside.Wait()
		defer cancel()
		beside.Go(func() { _ = s.runner.options.Pausing.Run(ctx) })
		s.runner.start = config.StartPoint{Now: true}
		term := s.lead(t)
		pass(2 * time.Second)
		s.store.insert("a", 1, false)
		pass(10 * time.Second)
		if got := s.topic.count(); got != 1 {
			t.Fatalf("%d events published before the pause", got)
		}

		p.set(&pause.Pause{Who: "ada", Why: "test"})
		pass(10 * time.Second)
		s.store.insert("a", 2, false)
		pass(time.Minute)
		if got, stopped := s.topic.count(), p.recorded(); got != 1 || !slices.Equal(stopped, []string{"test"}) {
			t.Errorf("%d events published, %v have stopped", got, stopped)
		}
		// A resume and a new pause between two reads.
		p.set(&pause.Pause{Who: "ada", Why: "again", At: time.Now()})
		pass(2 * time.Second)
		if got, stopped := s.topic.count(), p.recorded(); got != 1 || !slices.Equal(stopped, []string{"test", "test"}) {
			t.Errorf("%d events published, %v have stopped for two pauses", got, stopped)
		}
		select {
		case err := <-term.result:
			t.Fatalf("the term has ended in the pause: %v", err)
		default:
		}

		p.set(nil)
		pass(10 * time.Second)
		s.published(t)
		if epoch := s.checkpoint.field("epoch"); epoch != int64(2) {
			t.Errorf("epoch %v after the pause, want a new one", epoch)
		}
		p.set(&pause.Pause{})
		pass(10 * time.Second)
		if err := term.end(term.stop); err != nil {
			t.Errorf("a stop in a pause: %v", err)
		}
	})
}
