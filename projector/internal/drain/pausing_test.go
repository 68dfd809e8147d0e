package drain_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// paused is a pause that a test starts and ends.
type paused struct {
	mu       sync.Mutex
	open     chan struct{} // closed while there is no pause
	cancel   context.CancelCauseFunc
	released int
}

func newPaused() *paused {
	p := &paused{open: make(chan struct{})}
	close(p.open)
	return p
}

func (p *paused) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
	if p.cancel != nil {
		p.cancel(errors.New("paused"))
	}
}

func (p *paused) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.open)
}

func (p *paused) releases() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.released
}

func (p *paused) Working(ctx context.Context) (context.Context, func(), error) {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	working, cancel := context.WithCancelCause(ctx)
	p.cancel = cancel
	return working, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.released++
		cancel(nil)
	}, nil
}

// TestPauseReleasesEverySessionAndReceivesNothing checks that messages received before a
// pause are finished, that no session is held during the pause, and that draining
// continues afterwards, for any number of pauses.
func TestPauseReleasesEverySessionAndReceivesNothing(t *testing.T) {
	t.Parallel()
	withEachReceiver(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		p, want := newPaused(), make(map[string]int64)
		s := start(t, broker, newReadModels(4*time.Millisecond), func(o *drain.Options) { o.Pausing = p })
		keys := []string{"a", "b", "c", "d", "e", "f"}
		for round := range int64(3) {
			for _, key := range keys {
				broker.send(key, key, ids(round*21+1, round*21+20)...)
			}
			pause(t.Context(), 50*time.Millisecond)
			p.begin()
			pause(t.Context(), 10*time.Second)
			left := broker.unsettled()
			if held := broker.held(); len(held) > 0 || p.releases() != int(round)+1 {
				t.Errorf("in pause %d %v are held, released %d times", round, held, p.releases())
			}
			for _, key := range keys {
				broker.send(key, key, round*21+21)
				want[key] = round*21 + 21
			}
			pause(t.Context(), time.Minute)
			if n := broker.unsettled(); n != left+len(keys) {
				t.Errorf("%d messages are left in pause %d, want %d", n, round, left+len(keys))
			}
			p.end()
			s.settled(t, 10*time.Second)
		}
		s.model.applies(t, want)
		p.begin()
		pause(t.Context(), time.Second)
		s.end(t) // The process stops during a pause.
	})
}
