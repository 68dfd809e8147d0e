package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// republishOn makes a republisher of a topic in memory.
func republishOn(t *testing.T, topic *memoryTopic, limit publishRate) *republisher {
	t.Helper()
	sessions, err := event.NewSessionKeys(event.SessionPerAggregate, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &republisher{limiter: limit.limiter(), failed: make(map[uint64]error), done: func(uint64, error) {}}
	r.dispatcher, err = publish.New(publish.Options{
		Connect: topic.connect, Encoder: event.NewEncoder(event.EncodingBSON, sessions), SessionKey: sessions.Key,
		Acked: r.acked, Quarantine: r.refused,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// feedOf submits the given number of events, which belong to seven aggregates.
func feedOf(events int) func(context.Context, func(context.Context, publish.Item) error) error {
	return func(ctx context.Context, submit func(context.Context, publish.Item) error) error {
		reader, err := event.NewReader(event.DefaultFields())
		if err != nil {
			return err
		}
		store := newEventStore()
		for i := range events {
			store.insert(fmt.Sprintf("a%d", i%7), int64(i/7)+1, false)
			ev, err := reader.Read(store.log[i].document)
			if err != nil {
				return err
			}
			if err := submit(ctx, publish.Item{Event: ev, Ticket: uint64(i)}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestRepublishKeepsToItsRate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate, events int
		want         time.Duration
	}{
		{100, 1000, 9 * time.Second}, // those of the first second are sent at once
		{100, 100, 0},
		{1, 5, 4 * time.Second},
		{0, 1000, 0},
	} {
		t.Run(fmt.Sprintf("%d events at %d", test.events, test.rate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				topic := &memoryTopic{random: rand.New(rand.NewPCG(1, 2))}
				began := time.Now()
				sent, err := republishOn(t, topic, publishRate{test.rate}).run(t.Context(), sbus.Config{}, feedOf(test.events))
				if err != nil || sent != int64(test.events) || topic.count() != test.events {
					t.Fatalf("%d sent, %d on the topic, error %v", sent, topic.count(), err)
				}
				// The topic takes up to 20 ms for a send, and 7 aggregates send concurrently.
				if took := time.Since(began); took < test.want || test.rate > 0 && took > test.want+time.Second {
					t.Errorf("took %v, want %v", took, test.want)
				}
			})
		})
	}
}

func TestRepublishEndsWhileItWaitsForItsRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		topic := &memoryTopic{random: rand.New(rand.NewPCG(1, 2))}
		ended := errors.New("ordered by the test")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(2500*time.Millisecond, func() { end(ended) })
		sent, err := republishOn(t, topic, publishRate{1}).run(ctx, sbus.Config{}, feedOf(1000))
		if !errors.Is(err, ended) || sent != 3 {
			t.Errorf("%d sent, error %v; want 3, %v", sent, err, ended)
		}
	})
}

// A low rate leaves a cursor idle for longer than MongoDB keeps it. Each event is still
// read once.
func TestRepublishContinuesWhenMongoDBEndsItsCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newEventStore()
		var want []string
		for a := range 4 {
			for n := range int64(9) {
				aggregate := fmt.Sprintf("a%d", a)
				store.insert(aggregate, n+1, a == 2 && n == 4)
				if a != 2 || n != 4 {
					want = append(want, fmt.Sprintf("%s/%d", aggregate, n+1))
				}
			}
		}
		reads := 0
		store.readFault = func() error {
			if reads++; reads%3 == 0 {
				return mongo.CommandError{Code: 43, Name: "CursorNotFound", Message: "cursor id 7 not found"}
			}
			return nil
		}
		c := republishCommand{Aggregate: "all", fields: event.DefaultFields()}
		var got []string
		_, err := c.eachIn(t.Context(), historySource{store}, eventstore.Position{}, eventstore.Position{}, zerolog.Nop(), func(_ context.Context, ev event.Event) error {
			got = append(got, fmt.Sprintf("%s/%d", ev.AggregateID, ev.EventID))
			return nil
		})
		if err != nil || reads < 6 || !slices.Equal(got, want) {
			t.Errorf("%d reads gave %v, error %v; want %v", reads, got, err, want)
		}
	})
}

func TestQuestionNamesTheTimeThatARateTakes(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct {
		rate   int
		events int64
	}{
		" at 250 events per second, which takes about 1h7m": {250, 1_000_000},
		" at 2 events per second, which takes about 2s":     {2, 5},
	} {
		if got := (publishRate{test.rate}).duration(test.events); got != want {
			t.Errorf("%d events at %d: %q, want %q", test.events, test.rate, got, want)
		}
	}
	for _, rate := range []int{0, 250} {
		if got := (publishRate{rate}).duration(250); got != "" {
			t.Errorf("250 events at %d: %q", rate, got)
		}
	}
}
