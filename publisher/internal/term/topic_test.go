package term

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// memoryTopic is a topic in memory with a slow broker.
type memoryTopic struct {
	mu       sync.Mutex
	random   *rand.Rand
	refuse   *publish.SendError // of every send
	refuses  func(*event.Message) bool
	messages []event.Message
	stalled  chan struct{} // sends wait until it is closed; nil means that they do not wait
	holds    bool          // connections close only when the context of their Close ends
}

func (t *memoryTopic) connect(context.Context) (publish.Sender, error) { return memorySender{t}, nil }

type memorySender struct{ topic *memoryTopic }

func (s memorySender) Close(ctx context.Context) error {
	s.topic.mu.Lock()
	holds := s.topic.holds
	s.topic.mu.Unlock()
	if holds {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s memorySender) Send(ctx context.Context, messages []*event.Message) (int, error) {
	t := s.topic
	t.mu.Lock()
	latency := time.Duration(1+t.random.IntN(20)) * time.Millisecond
	accepted := 1 + t.random.IntN(len(messages))
	refuse, stalled := t.refuse, t.stalled
	if t.refuses != nil && slices.ContainsFunc(messages, t.refuses) {
		refuse = &publish.SendError{Fault: publish.FaultRefused, Err: errors.New("not allowed")}
	}
	t.mu.Unlock()
	if refuse != nil {
		return 0, refuse
	}
	if stalled != nil {
		select {
		case <-stalled:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if poll.Wait(ctx, latency) != nil {
		return 0, ctx.Err()
	}
	t.store(messages[:accepted])
	return accepted, nil
}

func (t *memoryTopic) store(messages []*event.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range messages {
		t.messages = append(t.messages, *m)
	}
}

func (t *memoryTopic) has(messageID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.messages {
		if t.messages[i].MessageID == messageID {
			return true
		}
	}
	return false
}

func (t *memoryTopic) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.messages)
}

// check compares the topic and the quarantine with the store: each event is on the topic or in
// the quarantine, and the first occurrences of an aggregate's other events are in order.
func (t *memoryTopic) check(store *eventStore, q quarantined) error {
	inQuarantine := q.ids()
	t.mu.Lock()
	defer t.mu.Unlock()
	refused := map[string]bool{}
	for _, e := range store.log {
		refused[event.MessageID(e.aggregate, e.number)] = inQuarantine[e.id]
	}
	seen, last := map[string]bool{}, map[string]int64{}
	for _, m := range t.messages {
		if seen[m.MessageID] {
			continue
		}
		seen[m.MessageID] = true
		if refused[m.MessageID] { // and published when it was read again
			continue
		}
		if m.EventID <= last[m.AggregateID] {
			return fmt.Errorf("%s comes first after event %d", m.MessageID, last[m.AggregateID])
		}
		last[m.AggregateID] = m.EventID
	}
	for _, e := range store.log {
		switch id := event.MessageID(e.aggregate, e.number); {
		case e.ends(), e.removal:
		case e.poison && !inQuarantine[e.id]:
			return fmt.Errorf("event %d is not in the quarantine", e.id)
		case !e.poison && !seen[id] && !inQuarantine[e.id]:
			return fmt.Errorf("%s is lost", id)
		case e.poison && seen[id]:
			return fmt.Errorf("%s is published, though it breaks the contract", id)
		}
	}
	return nil
}
