package readmodel

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

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// newLoads starts a loader.
func newLoads(t *testing.T, db database, o LoaderOptions) *Loader {
	t.Helper()
	l := newLoader(db, o)
	ctx, cancel := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { _ = l.Run(ctx) })
	t.Cleanup(func() { cancel(); loop.Wait() })
	return l
}

// library has every document that it is asked for. Each takes time and size bytes. It counts the
// bytes of documents from the read of their page to their release.
type library struct {
	database
	size      int
	mu        sync.Mutex
	now, most int
}

func (m *library) page(ctx context.Context, _ string, filter, _ bson.Raw, _, maxBytes int) (found []bson.Raw, complete bool, err error) {
	if err := poll.Wait(ctx, 5*time.Millisecond); err != nil {
		return nil, false, err
	}
	ids, err := filter.Lookup(fieldID, "$in").Array().Values()
	if err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	bytes := 0
	for _, id := range ids {
		if bytes >= maxBytes {
			return found, false, nil
		}
		document := testkit.Raw(bson.D{{Key: fieldID, Value: id}, {Key: model.FieldLastEventID, Value: int64(1)}, {Key: model.FieldLastGeneration, Value: int64(1)}, {Key: "filler", Value: strings.Repeat("x", m.size)}})
		found, bytes = append(found, document), bytes+len(document)
		m.now += len(document)
	}
	m.most = max(m.most, m.now)
	return found, true, nil
}

func (m *library) release(states []model.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range states {
		m.now -= len(s.Document)
	}
}

// TestLoadedDocumentsAreBoundedInBytes checks that the memory for large documents is
// bounded, whatever the number of callers, and that every caller gets all its documents
// in the end. Callers that give up keep no memory.
func TestLoadedDocumentsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	for _, impatient := range []bool{false, true} {
		t.Run(fmt.Sprint("impatient callers ", impatient), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { loadLargeDocuments(t, impatient) })
		})
	}
}

func loadLargeDocuments(t *testing.T, impatient bool) {
	t.Helper()
	const sessions, each, limit = 12, 20, 8 << 20
	db := &library{size: 256 << 10}
	l := newLoads(t, db, LoaderOptions{MaxBytes: limit})
	var callers sync.WaitGroup
	for s := range sessions {
		callers.Go(func() {
			open := make([]model.Unit, each)
			for i := range open {
				open[i] = keyOf(fmt.Sprint(s*each + i))
			}
			for try := 0; len(open) > 0; try++ {
				ctx, cancel := context.WithCancel(t.Context())
				if impatient && s%4 == 0 && try%2 == 0 {
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(s)*time.Millisecond)
				}
				states, err := l.Load(ctx, open)
				cancel()
				if err != nil {
					continue
				}
				<-time.After(10 * time.Millisecond) // folding and writing
				var rest []model.Unit
				for i, state := range states {
					switch {
					case state.Deferred:
						rest = append(rest, open[i])
					case len(state.Document) < db.size || state.Watermark != 1:
						t.Errorf("%s: %d bytes, watermark %d, %v", open[i].AggregateID, len(state.Document), state.Watermark, state.Unavailable)
					}
				}
				if len(rest) == len(open) {
					t.Error("the load deferred all units, want at least one state")
				}
				db.release(states)
				l.Release(states)
				open = rest
			}
		})
	}
	callers.Wait()
	<-time.After(time.Minute) // requests whose callers gave up end
	if l.budget.used != 0 {
		t.Errorf("%d bytes are taken for good", l.budget.used)
	}
	// Until the size of the documents is known, each group may read a page too much.
	if most := limit + 4*pageBytes + 2<<20; !impatient && db.most > most {
		t.Errorf("%d bytes were in memory at once, more than %d", db.most, most)
	}
}

// empty has no document, but documents of the collection are known to be large.
type empty struct{ database }

func (empty) page(context.Context, string, bson.Raw, bson.Raw, int, int) ([]bson.Raw, bool, error) {
	return nil, true, nil
}

func (empty) find(context.Context, string, bson.Raw, bson.Raw, int) ([]bson.Raw, error) {
	return nil, nil
}

// A verification asks for the read models of many aggregates that have none.
func TestManyAbsentDocumentsOfALargeCollectionAreLoaded(t *testing.T) {
	t.Parallel()
	l := newLoads(t, empty{}, LoaderOptions{MaxBytes: 64 << 20})
	units := make([]model.Unit, 1000)
	for i := range units {
		units[i] = keyOf(fmt.Sprint(i))
	}
	l.sizes.learn(units[0].Collection, []bson.Raw{make(bson.Raw, 1<<20)})
	states, err := l.Load(t.Context(), units)
	if err != nil || len(states) != len(units) {
		t.Errorf("%d states, %v", len(states), err)
	}
}

// refusing answers no read of documents with an id in bad but with err.
type refusing struct {
	library
	bad   map[string]bool
	err   error
	reads int
}

func (r *refusing) page(ctx context.Context, collection string, filter, projection bson.Raw, limit, maxBytes int) ([]bson.Raw, bool, error) {
	r.reads++
	ids, _ := filter.Lookup(fieldID, "$in").Array().Values()
	if slices.ContainsFunc(ids, func(id bson.RawValue) bool { return r.bad[id.StringValue()] }) {
		return nil, false, r.err
	}
	return r.library.page(ctx, collection, filter, projection, limit, maxBytes)
}

// TestReadModelThatCannotBeReadHidesNoOther checks that the read models of one group are available but
// for those that the server refuses to read, in few requests. If nothing answers, one request is enough.
func TestReadModelThatCannotBeReadHidesNoOther(t *testing.T) {
	t.Parallel()
	all, two := map[string]bool{}, map[string]bool{"7": true, "300": true}
	units := make([]model.Unit, 500)
	for i := range units {
		all[fmt.Sprint(i)], units[i] = true, keyOf(fmt.Sprint(i))
	}
	unreachable := mongo.CommandError{Code: 6, Message: "shard down"}
	for name, test := range map[string]struct {
		db               *refusing
		available, reads int
	}{
		"two documents": {&refusing{bad: two, err: unreachable}, 498, 50},
		"all documents": {&refusing{bad: all, err: unreachable}, 0, maxRefused + 1},
		"no answer":     {&refusing{bad: two, err: errors.New("connection closed")}, 0, 1},
	} {
		l := newLoads(t, test.db, LoaderOptions{})
		states, err := l.Load(t.Context(), units)
		if err != nil {
			t.Fatal(err)
		}
		available := 0
		for i, s := range states {
			if s.Unavailable == nil {
				available++
			} else if name == "two documents" && !two[units[i].AggregateID] {
				t.Errorf("%s: %s is unavailable: %v", name, units[i].AggregateID, s.Unavailable)
			}
		}
		if available != test.available || test.db.reads > test.reads {
			t.Errorf("%s: %d available in %d reads, want %d in at most %d", name, available, test.db.reads, test.available, test.reads)
		}
	}
}
