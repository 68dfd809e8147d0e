package drain_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// A slot sends heartbeats only while the calls of its handler return.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.lockFor = 10 * time.Minute
		heartbeat := &heartbeat{}
		h := &stuck{begun: make(chan struct{}), release: make(chan struct{})}
		s := start(t, broker, newReadModels(0), func(o *drain.Options) {
			o.Slots, o.Handler = 1, h
			o.Heartbeat = func(int) drain.Heartbeat { return heartbeat }
		})
		pause(t.Context(), 20*time.Minute)
		if silence := heartbeat.longestSilence(); silence > drain.MaxSilence {
			t.Errorf("an idle slot was silent for %s", silence)
		}
		broker.send("a", "a", 1)
		<-h.begun
		beats := heartbeat.beats
		pause(t.Context(), 5*time.Minute)
		if heartbeat.beats != beats {
			t.Error("a slot whose handler is stuck beats")
		}
		close(h.release)
		s.settled(t, time.Minute)
		s.end(t)
	})
}

// stuck is a handler that ignores its context until it is released.
type stuck struct{ begun, release chan struct{} }

func (h *stuck) Handle(_ context.Context, batch []*drain.Delivery, _ time.Time) []model.Verdict {
	close(h.begun)
	<-h.release
	verdicts := make([]model.Verdict, len(batch))
	for i := range verdicts {
		verdicts[i].Outcome = model.Done
	}
	return verdicts
}

// heartbeat counts heartbeats and measures the time between them.
type heartbeat struct {
	mu    sync.Mutex
	beats int
	last  time.Time
	max   time.Duration
	idle  bool
}

func (p *heartbeat) Beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note()
	p.beats++
	p.idle = false
}

func (p *heartbeat) Idle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note()
	p.idle = true
}

func (p *heartbeat) note() {
	now := time.Now()
	if p.beats > 0 && !p.idle {
		p.max = max(p.max, now.Sub(p.last))
	}
	p.last = now
}

func (p *heartbeat) longestSilence() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.max
}
