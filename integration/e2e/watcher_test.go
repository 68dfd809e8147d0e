package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/examples/watcher"
)

// TestWatcherFollowsPromotions checks the example of a watcher: while events arrive, it sees no
// document go back or disappear in three promotions, and in the end it has what the collection
// has.
func TestWatcherFollowsPromotions(t *testing.T) { scene(t, watcherFollowsPromotions) }

func watcherFollowsPromotions(t *testing.T) {
	t.Helper()
	s := newTallies(t, tally("tallies", "tallies", 1))
	s.start(1, 1)
	s.store(1)
	s.complete("tallies", 1)

	models := watcher.NewCopy(s.models.Collection("tallies"))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := models.Follow(ctx); ctx.Err() == nil {
			t.Errorf("the watcher has ended: %v", err)
		}
	})
	p := &picture{t: t}
	running.Go(func() { p.follow(ctx, models) })
	defer running.Wait()
	defer cancel()

	for generation := int64(2); generation <= 4; generation++ {
		s.projectorCommand(0, "projections", "rebuild", "tallies", "--yes", "--why=watched")
		var e entry
		for e = s.entry("tallies"); e.Live == nil || e.Building != nil || len(e.History) < int(generation); e = s.entry("tallies") {
			s.store(1)
			<-time.After(500 * time.Millisecond)
		}
	}
	s.store(1)
	s.complete("tallies", 1)
	s.await("the watcher has what the collection has", func() bool {
		all, err := s.read(t.Context(), "tallies")
		if err != nil {
			return false
		}
		return p.equals(all)
	})
	if p.replaced < 4 {
		t.Errorf("the watcher has read the collection %d times, want once and after each of three promotions", p.replaced)
	}
}

// picture is what a browser shows.
type picture struct {
	t         *testing.T
	mu        sync.Mutex
	documents map[string]document
	replaced  int
}

func (p *picture) follow(ctx context.Context, models *watcher.Copy) {
	for ctx.Err() == nil {
		changes, stop := models.Watch()
		for watching := true; watching; {
			select {
			case <-ctx.Done():
				watching = false
			case change, ok := <-changes:
				if watching = ok; ok {
					p.show(change)
				}
			}
		}
		stop()
	}
}

func (p *picture) show(change watcher.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case change.Deleted != nil:
		p.t.Errorf("document %s has disappeared", change.Deleted)
	case change.Document != nil:
		p.put(p.documents, change.Document)
	default:
		all := map[string]document{}
		for _, d := range change.All {
			p.put(all, d)
		}
		if len(all) != tallied {
			p.t.Errorf("the watcher shows %d of %d documents", len(all), tallied)
		}
		p.documents = all
		p.replaced++
	}
}

func (p *picture) put(into map[string]document, raw bson.Raw) {
	var d document
	if err := bson.Unmarshal(raw, &d); err != nil {
		p.t.Error(err)
	}
	id := fmt.Sprint(raw.Lookup("_id"))
	if before := p.documents[id]; d.LastEventID < before.LastEventID {
		p.t.Errorf("document %s goes back from %+v to %+v", id, before, d)
	}
	into[id] = d
}

// equals reports whether the picture has exactly these documents.
func (p *picture) equals(all []document) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	shown := map[document]int{}
	for _, d := range p.documents {
		shown[d]++
	}
	for _, d := range all {
		shown[d]--
	}
	for _, n := range shown {
		if n != 0 {
			return false
		}
	}
	return len(all) == len(p.documents)
}
