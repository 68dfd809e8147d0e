package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// pickyTopic is a sender that refuses the events of some aggregates.
type pickyTopic struct{ refused []string }

func (p pickyTopic) Send(_ context.Context, messages []*event.Message) (int, error) {
	for _, m := range messages {
		if slices.Contains(p.refused, m.AggregateID) {
			return 0, &publish.SendError{Fault: publish.FaultRefused, Err: errors.New("not allowed")}
		}
	}
	return len(messages), nil
}

func (pickyTopic) Close(context.Context) error { return nil }

// The setting that the error of a command names must have an effect on the command.
func TestRepublisherKeepsToTheQuarantineShare(t *testing.T) {
	t.Parallel()
	const events, every, refusals = 240, 8, 15
	topic := pickyTopic{}
	for n := range refusals { // the topic accepts others after the last of them
		topic.refused = append(topic.refused, fmt.Sprintf("a%03d", n*every))
	}
	for share, ends := range map[float64]bool{0.05: true, 1: false} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := config.Config{
					Publish:  config.Publish{SessionMode: string(event.SessionPerAggregate)},
					Refusals: config.Refusals{QuarantineShare: share, MaxAttempts: 5},
				}
				var mu sync.Mutex
				failed := 0
				r, err := republishBy(func(context.Context) (publish.Sender, error) { return topic, nil }, publish.BatchingOff,
					Options{Config: c}, 1, publishRate{Rate: 30}, func(_ uint64, err error) {
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							failed++
						}
					})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				sent, err := r.run(t.Context(), c.ServiceBus, func(ctx context.Context, submit func(context.Context, publish.Item) error) error {
					for n := range uint64(events) {
						aggregate := fmt.Sprintf("a%03d", n)
						ev := event.Event{
							Keys:     event.Keys{AggregateID: aggregate, EventID: 1, EventType: "T"},
							Document: mustRaw(map[string]any{"aggregateId": aggregate, "eventId": 1, "eventType": "T"}),
						}
						if err := submit(ctx, publish.Item{Event: ev, Ticket: n}); err != nil {
							return err
						}
					}
					return nil
				})
				switch {
				case ends && (!errors.Is(err, publish.ErrRefusals) || !strings.Contains(err.Error(), "PENSTOCK_QUARANTINE_SHARE") || failed != 10):
					t.Errorf("after %d refusals it ended with %v", failed, err)
				case !ends && (err != nil || sent != events-refusals || failed != refusals):
					t.Errorf("%d events sent and %d refused in %v: %v", sent, failed, time.Since(began), err)
				}
			})
		})
	}
}
