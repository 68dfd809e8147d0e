package drain_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

var errStore = errors.New("store is not able to")

// readModels applies events to a watermark per aggregate, like a guarded write: it reads the
// watermark, waits, and writes only if the watermark is still the same.
type readModels struct {
	latency time.Duration
	// store holds the number of events of each aggregate in the event store.
	store map[string]int64
	// poison are the events that park their aggregate.
	poison map[string]int64
	// transient, if set, can fail an event.
	transient func() bool

	mu sync.Mutex
	// failing makes the writes of the aggregate bad fail, and down all writes.
	failing, down bool
	// answered is when the store last accepted a write.
	answered time.Time
	// givenUp holds the reason why an aggregate was given up, and head the last event that was
	// acknowledged for it.
	givenUp   map[string]string
	head      map[string]int64
	watermark map[string]int64
	applied   map[string][]int64
	parked    map[string]bool
	problems  []string
}

func newReadModels(latency time.Duration) *readModels {
	return &readModels{
		latency: latency,
		givenUp: make(map[string]string), head: make(map[string]int64), store: make(map[string]int64), poison: make(map[string]int64),
		watermark: make(map[string]int64), applied: make(map[string][]int64), parked: make(map[string]bool),
	}
}

func (m *readModels) Handle(ctx context.Context, batch []*drain.Delivery, since time.Time) []model.Verdict {
	m.mu.Lock()
	from := make(map[string]int64)
	for i, d := range batch {
		from[d.Event.AggregateID] = m.watermark[d.Event.AggregateID]
		if i > 0 && batch[i-1].Event.AggregateID == d.Event.AggregateID && batch[i-1].Event.EventID >= d.Event.EventID {
			m.problems = append(m.problems, "batch not ascending")
		}
	}
	m.mu.Unlock()
	if pause(ctx, m.latency); ctx.Err() != nil {
		return make([]model.Verdict, len(batch))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	verdicts := make([]model.Verdict, len(batch))
	stale := make(map[string]bool)
	for key, v := range from {
		// The guard: the watermark must be the one that was read.
		stale[key] = m.watermark[key] != v
	}
	for i, d := range batch {
		key, id := d.Event.AggregateID, d.Event.EventID
		switch {
		case m.waits(key) && id > m.watermark[key]:
			m.head[key] = max(m.head[key], id)
			verdicts[i] = model.Verdict{Outcome: model.Done}
		case stale[key] || m.failing && key == "bad" || m.down || m.transient != nil && m.transient():
			stale[key] = true
			verdicts[i] = model.Verdict{Outcome: model.Retry, Err: errStore}
			if m.failing && key == "bad" && !m.down && !since.IsZero() && !m.answered.Before(since) {
				verdicts[i] = m.giveUp(key, id, "unavailable")
			}
		default:
			verdicts[i] = m.apply(key, id)
		}
	}
	return verdicts
}

func (m *readModels) apply(key string, id int64) model.Verdict {
	switch v := m.watermark[key]; {
	case m.parked[key], id <= v:
		return model.Verdict{Outcome: model.Done}
	case id > v+1 && m.store[key] < id-1:
		return m.giveUp(key, id, "missing")
	default:
		return m.project(key, v+1, id)
	}
}

// project applies the events up to that of the delivery.
func (m *readModels) project(key string, from, id int64) model.Verdict {
	for v := from; v <= id; v++ {
		if m.poison[key] == v {
			m.parked[key] = true
			return model.Verdict{Outcome: model.Done}
		}
		m.applied[key] = append(m.applied[key], v)
		m.watermark[key] = v
	}
	m.answered = time.Now()
	return model.Verdict{Outcome: model.Done}
}

// giveUp parks an aggregate until it is resumed.
func (m *readModels) giveUp(key string, id int64, reason string) model.Verdict {
	m.givenUp[key], m.head[key] = reason, max(m.head[key], id)
	return model.Verdict{Outcome: model.Done}
}

// reason returns the reason why an aggregate was given up; empty if it was not.
func (m *readModels) reason(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.givenUp[key]
}

func (m *readModels) waits(key string) bool { return m.givenUp[key] != "" }

// resume folds the aggregates that were given up from the event store.
func (m *readModels) resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.givenUp {
		if head := m.head[key]; head > m.watermark[key] && !m.parked[key] {
			m.project(key, m.watermark[key]+1, head)
		}
	}
	clear(m.givenUp)
}

// check returns an error unless each aggregate has exactly its events 1 to want.
func (m *readModels) check(want map[string]int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.problems {
		return errors.New(p)
	}
	for key, n := range want {
		applied := m.applied[key]
		for i, id := range applied {
			if id != int64(i)+1 {
				return fmt.Errorf("%s: event %d applied at place %d: %v", key, id, i+1, applied)
			}
		}
		if int64(len(applied)) != n {
			return fmt.Errorf("%s: %d events applied, want %d", key, len(applied), n)
		}
	}
	return nil
}

// applies fails the test if check returns an error.
func (m *readModels) applies(t *testing.T, want map[string]int64) {
	t.Helper()
	if err := m.check(want); err != nil {
		t.Error(err)
	}
}

// fail makes the writes of the aggregate bad fail, or ends that.
func (m *readModels) fail(fails bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = fails
}

// outage makes every write fail.
func (m *readModels) outage() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = true
}
