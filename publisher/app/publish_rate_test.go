package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

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
				began := time.Now()
				sent, _, err := republish(t.Context(), t, pickyTopic{}, config.Refusals{}, publishRate{test.rate}, uint64(test.events))
				if err != nil || sent != int64(test.events) {
					t.Fatalf("%d sent, error %v", sent, err)
				}
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
		ended := errors.New("ordered by the test")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(2500*time.Millisecond, func() { end(ended) })
		sent, _, err := republish(ctx, t, pickyTopic{}, config.Refusals{}, publishRate{1}, 1000)
		if !errors.Is(err, ended) || sent != 3 {
			t.Errorf("%d sent, error %v; want 3, %v", sent, err, ended)
		}
	})
}

// expiringHistory is an event store in pages of five events, of which every third request for a
// page finds that MongoDB has ended the cursor.
type expiringHistory struct {
	term.Source
	events []bson.Raw // in order
	reads  *int
}

func (h expiringHistory) Open(_ context.Context, from, _ eventstore.Position, _ bson.Timestamp) (eventstore.Cursor, error) {
	for !from.IsZero() && len(h.events) > 0 {
		if p, _ := h.Position(h.events[0]); p.AggregateID.Equal(from.AggregateID) && p.EventID.Equal(from.EventID) {
			break
		}
		h.events = h.events[1:]
	}
	return &h, nil
}

func (h *expiringHistory) Next(context.Context) ([]bson.Raw, error) {
	if *h.reads++; *h.reads%3 == 0 {
		return nil, mongo.CommandError{Code: 43, Name: "CursorNotFound", Message: "cursor id 7 not found"}
	}
	if len(h.events) == 0 {
		return nil, eventstore.ErrEnd
	}
	page := h.events[:min(5, len(h.events))]
	h.events = h.events[len(page):]
	return page, nil
}

func (*expiringHistory) Close(context.Context) error { return nil }

func (expiringHistory) Position(document bson.Raw) (eventstore.Position, bool) {
	return eventstore.Position{AggregateID: document.Lookup("aggregateId"), EventID: document.Lookup("eventId")}, true
}

func (expiringHistory) CheckFirstID(context.Context) error { return nil }

func (expiringHistory) LearnIDs(context.Context) (event.IDKind, error) { return "", nil }

// A low rate leaves a cursor idle for longer than MongoDB keeps it. Each event is still
// read once.
func TestRepublishContinuesWhenMongoDBEndsItsCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		history := expiringHistory{reads: new(int)}
		var want []string
		for a := range 4 {
			for n := range int64(9) {
				aggregate := fmt.Sprintf("a%d", a)
				ev := eventOf(aggregate, n+1)
				if a == 2 && n == 4 {
					ev.Document = testkit.Raw(bson.D{{Key: "aggregateId", Value: aggregate}}) // unreadable
				} else {
					want = append(want, fmt.Sprintf("%s/%d", aggregate, n+1))
				}
				history.events = append(history.events, ev.Document)
			}
		}
		reader := event.NewReader(event.DefaultFields())
		var got []string
		_, err := eachIn(t.Context(), zerolog.Nop(), history, reader, eventstore.Position{}, eventstore.Position{}, func(_ context.Context, ev event.Event) error {
			got = append(got, fmt.Sprintf("%s/%d", ev.AggregateID, ev.EventID))
			return nil
		})
		if err != nil || *history.reads < 6 || !slices.Equal(got, want) {
			t.Errorf("%d reads gave %v, error %v; want %v", *history.reads, got, err, want)
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
