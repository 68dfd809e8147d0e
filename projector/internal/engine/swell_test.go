package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// slowStore measures how many bytes are being written at the same time.
type slowStore struct {
	*memory

	mu            sync.Mutex
	writing, most int
}

func (s *slowStore) Write(ctx context.Context, writes []model.Write) ([]model.Written, error) {
	size := 0
	for _, w := range writes {
		size += len(w.Document) + len(w.Update)
	}
	s.add(size)
	defer s.add(-size)
	<-time.After(time.Second)
	return s.memory.Write(ctx, writes)
}

func (s *slowStore) add(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing += size
	s.most = max(s.most, s.writing)
}

// TestSwellingDocumentsAreWrittenInTurns lets many sessions at the same time apply small
// events that make large documents.
func TestSwellingDocumentsAreWrittenInTurns(t *testing.T) {
	const (
		sessions, aggregates, each = 8, 5, 2
		size                       = 3 << 20
		// most is the bound of a round, with one document above it.
		most = 16<<20 + 2*size
	)
	payload := fmt.Sprintf(`{"text":%q,"by":%q}`, strings.Repeat("a", size/10_000), strings.Repeat("b", 10_000))
	for _, kept := range []int{0, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			store := &slowStore{memory: newMemory()}
			b := newBench(t, `
projections:
  - name: p
    collection: c
    on:
      E:
        set: {result: "payload.text.replace('a', payload.by)"}
        inc: {count: "1"}
`, func(o *benchOptions) { o.Store = store })
			var work sync.WaitGroup
			for i := range sessions {
				var events []*event.Event
				for id := range int64(each) {
					for a := range aggregates {
						ev := projectiontest.Event(id+1, "E", payload)
						ev.AggregateID = fmt.Sprint(i, "-", a)
						events = append(events, ev)
					}
				}
				work.Go(func() {
					results, err := b.Session(kept).Process(t.Context(), events, fresh)
					if err != nil {
						t.Error(err)
					}
					for i, r := range results {
						if r.Outcome != model.Done {
							t.Errorf("event %d of %s is %v", events[i].EventID, events[i].AggregateID, r.Outcome)
						}
					}
				})
			}
			work.Wait()
			if store.most > most {
				t.Errorf("%d MiB are written at the same time, more than %d", store.most>>20, most>>20)
			}
			if len(store.documents) != sessions*aggregates {
				t.Errorf("%d documents", len(store.documents))
			}
			for u, document := range store.documents {
				var d struct {
					Result string
					Count  int
				}
				if err := bson.Unmarshal(document, &d); err != nil || d.Count != each || len(d.Result) != size/10_000*10_000 {
					t.Fatalf("%s: %d events, %d bytes: %v", u.AggregateID, d.Count, len(d.Result), err)
				}
			}
		})
	}
}

// TestFoldingStopsWithItsContext cancels a call while it folds a batch whose events take
// long.
func TestFoldingStopsWithItsContext(t *testing.T) {
	t.Parallel()
	var cancel context.CancelFunc
	folded := 0
	p, err := projection.New(projection.Declaration{Name: "p", Collection: "c", Apply: func(state projection.State, _ *event.Event) (projection.State, error) {
		folded++
		cancel()
		return state, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, tally, func(o *benchOptions) { o.targets = liveTargets([]*projection.Projection{p}) })
	var events []*event.Event
	for i := range 50 {
		ev := projectiontest.Event(1, "E", "")
		ev.AggregateID = fmt.Sprint(i)
		events = append(events, ev)
	}
	for _, process := range []func(context.Context, []*event.Event, time.Time) ([]model.Verdict, error){b.Process, b.Session(0).Process} {
		ctx, stop := context.WithCancel(t.Context())
		cancel, folded = stop, 0
		if _, err := process(ctx, events, fresh); err == nil {
			t.Error("the call has not ended with its context")
		}
		if folded != 1 {
			t.Errorf("%d of %d aggregates are folded", folded, len(events))
		}
		stop()
	}
}
