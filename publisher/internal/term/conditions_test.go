package term

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// TestVerdictNamesTheKeyThatFailsLongest also checks that such a key is not quarantined,
// because the topic does not refuse its event explicitly.
func TestVerdictNamesTheKeyThatFailsLongest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sessions := event.NewSessionKeys(event.SessionPerAggregate, 0)
		fault := publish.SendError{Fault: publish.FaultTransient, Err: errors.New("internal error")}
		topic := &memoryTopic{random: rand.New(rand.NewPCG(1, 1)), refuse: &fault}
		metrics := publish.NewMetrics(nil)
		d := publish.New(publish.Options{
			Connect: topic.connect, Encoder: event.NewEncoder(event.EncodingBSON, sessions),
			Metrics: metrics, Acked: func([]uint64) {},
			Quarantine: func(_ context.Context, item *publish.Item, cause error) error {
				t.Errorf("%s is quarantined: %v", item.Event.AggregateID, cause)
				return nil
			},
		})
		ended := make(chan error, 1)
		go func() { ended <- d.Run(t.Context()) }()
		conditions := delayedKeys(metrics)
		holds := func(want bool) {
			t.Helper()
			found := conditions(t.Context())
			if (len(found) == 1) != want {
				t.Fatalf("conditions %v", found)
			}
			if want && (found[0].State != health.Degraded || !strings.Contains(found[0].Text, `1 session key, for session key "a0"`) || !strings.Contains(found[0].Text, "internal error")) {
				t.Errorf("condition %v", found[0])
			}
		}
		store := newEventStore()
		store.insert("a0", 1, false)
		item := publish.Item{Event: event.Event{Keys: event.Keys{AggregateID: "a0", EventID: 1, EventType: "T"}, Document: store.log[0].document}}
		if err := d.Submit(t.Context(), item); err != nil {
			t.Fatal(err)
		}
		<-time.After(delayedAfter - time.Second)
		holds(false)
		<-time.After(10 * time.Minute)
		holds(true)
		topic.mu.Lock()
		topic.refuse = nil
		topic.mu.Unlock()
		if err := d.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		holds(false)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
