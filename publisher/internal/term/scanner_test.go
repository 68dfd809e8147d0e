package term_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

// stored is one event of the model.
type stored struct {
	aggregate string
	number    int64
}

func (e stored) compare(f stored) int {
	return cmp.Or(cmp.Compare(e.aggregate, f.aggregate), cmp.Compare(e.number, f.number))
}

// fakeStore is an event store in memory: a log in the order of commits, and its index. A
// page contains the events that are in the log when the page is read.
type fakeStore struct {
	mu     sync.Mutex
	log    []stored
	faults []error  // of the next opens and pages, nil for none
	before []func() // called before each page
	page   int
	hang   bool
	opened int
	// payload is the size of a document, apart from its keys; pages counts those that were
	// read.
	payload int
	pages   int
}

func (*fakeStore) LearnIDs(context.Context) (event.IDKind, error) { return "", nil }

func (s *fakeStore) OperationTime(context.Context) (bson.Timestamp, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bson.Timestamp{T: uint32(len(s.log)) + 1}, nil
}

func (s *fakeStore) fault() error {
	if len(s.faults) == 0 {
		return nil
	}
	err := s.faults[0]
	s.faults = s.faults[1:]
	return err
}

func (s *fakeStore) Compare(_, _ eventstore.Position) (int, bool) { return 0, false }

func (s *fakeStore) Open(_ context.Context, from, until eventstore.Position, _ bson.Timestamp) (eventstore.Cursor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	if err := s.fault(); err != nil {
		return nil, err
	}
	c := &fakeCursor{store: s}
	if !until.IsZero() {
		c.until = &stored{until.AggregateID.StringValue(), until.EventID.Int64()}
	}
	if !from.IsZero() {
		c.next = stored{from.AggregateID.StringValue(), from.EventID.Int64()}
	}
	return c, nil
}

func (s *fakeStore) Position(document bson.Raw) (eventstore.Position, bool) {
	if document.Lookup("aggregateId").Type != bson.TypeString {
		return eventstore.Position{}, false
	}
	return eventstore.Position{AggregateID: document.Lookup("aggregateId"), EventID: document.Lookup("eventId")}, true
}

type fakeCursor struct {
	store *fakeStore
	next  stored
	until *stored
}

func (c *fakeCursor) Next(ctx context.Context) ([]bson.Raw, error) {
	s := c.store
	s.mu.Lock()
	hang := s.hang
	if len(s.before) > 0 {
		change := s.before[0]
		s.before = s.before[1:]
		change()
	}
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fault(); err != nil {
		return nil, err
	}
	index := slices.Clone(s.log)
	slices.SortFunc(index, stored.compare)
	at, _ := slices.BinarySearchFunc(index, c.next, stored.compare)
	index = index[at:]
	if c.until != nil {
		end, _ := slices.BinarySearchFunc(index, *c.until, stored.compare)
		index = index[:end]
	}
	if len(index) == 0 {
		return nil, eventstore.ErrEnd
	}
	s.pages++
	var page []bson.Raw
	for _, e := range index[:min(len(index), s.page)] {
		page = append(page, testkit.Raw(bson.D{{Key: "aggregateId", Value: e.aggregate}, {Key: "eventId", Value: e.number}, {Key: "payload", Value: make([]byte, s.payload)}}))
		c.next = stored{e.aggregate, e.number + 1}
	}
	return page, nil
}

func (c *fakeCursor) Close(context.Context) error { return nil }

// collect records what a scan passes to its handler.
type collect struct {
	mu  sync.Mutex
	got []stored
}

func (c *collect) handle(_ context.Context, documents []bson.Raw) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, doc := range documents {
		c.got = append(c.got, stored{doc.Lookup("aggregateId").StringValue(), doc.Lookup("eventId").AsInt64()})
	}
	return nil
}

func TestScanContinuesFromAPosition(t *testing.T) {
	t.Parallel()
	store := &fakeStore{page: 2, log: []stored{{"a", 1}, {"a", 2}, {"b", 1}, {"b", 2}, {"c", 1}}}
	from, ok := store.Position(testkit.Raw(bson.D{{Key: "aggregateId", Value: "b"}, {Key: "eventId", Value: int64(1)}}))
	if !ok {
		t.Fatal("no position")
	}
	var c collect
	if err := term.NewScanner(store, term.ScanOptions{}).Run(t.Context(), from, eventstore.Position{}, bson.Timestamp{T: 1}, c.handle); err != nil {
		t.Fatal(err)
	}
	if want := []stored{{"b", 1}, {"b", 2}, {"c", 1}}; !slices.Equal(c.got, want) {
		t.Errorf("got %v, want %v", c.got, want)
	}
}

func TestScanEndsAtPermanentErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault, want error
		text        string
	}{
		"no index":                  {fmt.Errorf("%w: create it", eventstore.ErrIndex), eventstore.ErrIndex, "create it"},
		"unauthorized":              {mongo.CommandError{Code: 13}, term.ErrScanRefused, "grant the user"},
		"wrong password":            {mongo.CommandError{Code: 18}, term.ErrScanRefused, "check the user"},
		"no min in find":            {mongo.CommandError{Code: 238}, term.ErrScanRefused, "use MongoDB 6.0 or later"},
		"no majority":               {mongo.CommandError{Code: 148}, term.ErrScanRefused, "majority"},
		"collection does not exist": {eventstore.ErrEnd, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &fakeStore{page: 2, log: []stored{{"a", 1}}, faults: []error{test.fault}}
			var c collect
			err := term.NewScanner(store, term.ScanOptions{}).Run(t.Context(), eventstore.Position{}, eventstore.Position{}, bson.Timestamp{T: 1}, c.handle)
			if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestScanEndsWithItsHandlerAndItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{page: 1}
		for n := range int64(100) {
			store.log = append(store.log, stored{"a", n + 1})
		}
		broken := errors.New("no more")
		err := term.NewScanner(store, term.ScanOptions{}).Run(t.Context(), eventstore.Position{}, eventstore.Position{}, bson.Timestamp{T: 1},
			func(context.Context, []bson.Raw) error { return broken })
		if !errors.Is(err, broken) {
			t.Errorf("ended with %v, want the handler's error", err)
		}

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(broken) })
		var beat atomic.Int64
		err = term.NewScanner(store, term.ScanOptions{Beat: func() { beat.Add(1) }}).Run(ctx, eventstore.Position{}, eventstore.Position{}, bson.Timestamp{T: 1},
			func(ctx context.Context, _ []bson.Raw) error {
				<-ctx.Done()
				return ctx.Err()
			})
		if !errors.Is(err, broken) {
			t.Errorf("ended with %v, want the cause", err)
		}
		if n := beat.Load(); n < 59 || n > 61 {
			t.Errorf("%d beats in a minute of waiting for the handler", n)
		}
	})
}

func TestHeartbeatsStopWhenTheServerIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{page: 1, log: []stored{{"a", 1}}, hang: true}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var last atomic.Int64
		began := time.Now()
		var c collect
		err := term.NewScanner(store, term.ScanOptions{Timeout: time.Minute, Beat: func() { last.Store(int64(time.Since(began))) }}).
			Run(ctx, eventstore.Position{}, eventstore.Position{}, bson.Timestamp{T: 1}, c.handle)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if after := time.Duration(last.Load()); after < time.Minute || after > 3*time.Minute {
			t.Errorf("beats ended after %v", after)
		}
		if store.opened < 5 {
			t.Errorf("tried %d times in 10 min", store.opened)
		}
	})
}

// Large events must not fill the memory while the topic does not accept them.
func TestPrefetchIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{page: 1, payload: 1 << 20}
		for n := range int64(20) {
			store.log = append(store.log, stored{"a", n + 1})
		}
		proceed := make(chan struct{})
		done := make(chan error, 1)
		handled := 0
		go func() {
			done <- term.NewScanner(store, term.ScanOptions{PrefetchBytes: 5 << 19}).Run(t.Context(), eventstore.Position{}, eventstore.Position{}, bson.Timestamp{},
				func(_ context.Context, documents []bson.Raw) error {
					<-proceed
					handled += len(documents)
					return nil
				})
		}()
		synctest.Wait()
		store.mu.Lock()
		read := store.pages
		store.mu.Unlock()
		// Two pages of 1 MiB have room, and a third one waits.
		if read != 3 {
			t.Errorf("%d pages are read ahead, want 3", read)
		}
		close(proceed)
		if err := <-done; err != nil || handled != 20 {
			t.Errorf("%d events were handled: %v", handled, err)
		}
	})
}

// A page that is larger than the whole prefetch is read too.
func TestPageLargerThanThePrefetchIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{page: 2, payload: 1 << 20, log: []stored{{"a", 1}, {"a", 2}, {"a", 3}}}
		handled := 0
		err := term.NewScanner(store, term.ScanOptions{PrefetchBytes: 1}).Run(t.Context(), eventstore.Position{}, eventstore.Position{}, bson.Timestamp{},
			func(_ context.Context, documents []bson.Raw) error {
				handled += len(documents)
				return nil
			})
		if err != nil || handled != 3 {
			t.Errorf("%d events were handled: %v", handled, err)
		}
	})
}
