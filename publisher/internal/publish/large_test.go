package publish_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// crammed returns an event whose payload of about size bytes holds as many elements of that
// type and value as possible.
func crammed(tb testing.TB, id int64, size int, kind bson.Type, value []byte) event.Event {
	tb.Helper()
	element := append([]byte{byte(kind), 0}, value...)
	payload := make([]byte, 4, size+len(element))
	for len(payload) < size {
		payload = append(payload, element...)
	}
	payload = append(payload, 0)
	binary.LittleEndian.PutUint32(payload, uint32(len(payload)))
	doc := testkit.Raw(bson.D{
		{Key: "aggregateId", Value: fmt.Sprint("bomb-", kind, "-", id)}, {Key: "eventId", Value: int64(1)}, {Key: "eventType", Value: "Bomb"},
		{Key: "payload", Value: bson.Raw(payload)},
	})
	ev, err := testkit.EventReader().Read(doc)
	if err != nil {
		tb.Fatal(err)
	}
	return ev
}

// scales is a topic with a limit. It weighs the bodies that it is sent at the same time.
type scales struct {
	limit          int
	held, heaviest atomic.Int64

	mu       sync.Mutex
	claims   map[string]bool
	attempts int
}

func (s *scales) Send(_ context.Context, messages []*event.Message) (int, error) {
	var bodies int64
	for _, m := range messages {
		bodies += int64(len(m.Body))
	}
	held := s.held.Add(bodies)
	defer s.held.Add(-bodies)
	for {
		heaviest := s.heaviest.Load()
		if held <= heaviest || s.heaviest.CompareAndSwap(heaviest, held) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	if bodies > int64(s.limit) {
		return 0, &publish.SendError{Fault: publish.FaultTooLarge, First: len(messages) == 1, Err: errors.New("too large")}
	}
	for _, m := range messages {
		s.claims[m.MessageID] = m.ClaimCheck
	}
	return len(messages), nil
}

func (s *scales) Close(context.Context) error { return nil }

// bombs are types of which a document of 16 MiB has many times that in JSON.
func bombs() map[bson.Type][]byte {
	control := []byte(strings.Repeat("\x01", 1000) + "\x00")
	return map[bson.Type][]byte{
		bson.TypeRegex:    {0, 0},
		bson.TypeString:   append(binary.LittleEndian.AppendUint32(nil, uint32(len(control))), control...),
		bson.TypeObjectID: make([]byte, 12),
		bson.TypeMinKey:   {},
		bson.TypeInt32:    {0, 0, 0, 0x80},
	}
}

// TestLargeBodiesAreNotHeldTogether publishes three events of each type. In JSON they have up to
// 34 MiB each.
func TestLargeBodiesAreNotHeldTogether(t *testing.T) {
	t.Parallel()
	const size, copies, inflight = 5 << 19, 3, 32 << 20
	for name, limit := range map[string]int{"standard": 256 << 10, "large messages": 100 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := &scales{limit: limit, claims: make(map[string]bool)}
			keys := event.NewSessionKeys(event.SessionPerAggregate, 0)
			d := publish.New(publish.Options{
				Connect: func(context.Context) (publish.Sender, error) { return topic, nil },
				Encoder: event.NewEncoder(event.EncodingJSON, keys),
				Acked:   func([]uint64) {},
				Quarantine: func(_ context.Context, item *publish.Item, cause error) error {
					t.Errorf("%s is in the quarantine: %v", item.Event.AggregateID, cause)
					return nil
				},
				ClaimCheck: true,
				Limits:     publish.Limits{MaxInflightBytes: inflight},
			})
			ran := make(chan error, 1)
			go func() { ran <- d.Run(t.Context()) }()
			for kind, value := range bombs() {
				for id := range int64(copies) {
					if err := d.Submit(t.Context(), publish.Item{Event: crammed(t, id, size, kind, value)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := d.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-ran; err != nil {
				t.Fatal(err)
			}
			const largest = 32 << 20 // of one body
			if heaviest := topic.heaviest.Load(); heaviest > largest {
				t.Errorf("bodies of %d MiB were held at the same time, want at most %d", heaviest>>20, largest>>20)
			}
			claims := 0
			for _, claim := range topic.claims {
				if claim {
					claims++
				}
			}
			if len(topic.claims) != copies*len(bombs()) || limit < size && claims != len(topic.claims) || limit > largest && claims == len(topic.claims) {
				t.Errorf("%d events are on the topic, %d of them as claim checks", len(topic.claims), claims)
			}
			// The topic's limit is found by trying, so only the first large bodies are refused.
			if limit < size && topic.attempts > len(topic.claims)+len(bombs()) {
				t.Errorf("%d sends for %d events", topic.attempts, len(topic.claims))
			}
		})
	}
}
