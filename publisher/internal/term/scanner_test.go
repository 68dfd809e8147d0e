package term

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// scanAll scans a store from its beginning.
func scanAll(ctx context.Context, source historySource, o ScanOptions, handle func(context.Context, []bson.Raw) error) error {
	return NewScanner(source, o).Run(ctx, eventstore.Position{}, eventstore.Position{}, bson.Timestamp{T: 1}, handle)
}

// large appends n events of a size.
func (s *eventStore) large(n, size int) {
	for i := range n {
		s.append(storedEvent{id: i, aggregate: "a", number: int64(i + 1), document: testkit.Raw(bson.D{
			{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: int64(i + 1)}, {Key: "payload", Value: make([]byte, size)},
		})})
	}
}

func ignore(context.Context, []bson.Raw) error { return nil }

func TestScanContinuesFromAPosition(t *testing.T) {
	t.Parallel()
	source := historySource{newEventStore()}
	source.page = 2
	for _, aggregate := range []string{"a", "b", "c"} {
		source.fill(aggregate, 2, false)
	}
	from, ok := source.Position(testkit.Raw(bson.D{{Key: "aggregateId", Value: "b"}, {Key: "eventId", Value: int64(1)}}))
	if !ok {
		t.Fatal("no position")
	}
	var got []string
	err := NewScanner(source, ScanOptions{}).Run(t.Context(), from, eventstore.Position{}, bson.Timestamp{T: 1}, func(_ context.Context, documents []bson.Raw) error {
		for _, d := range documents {
			got = append(got, fmt.Sprintf("%s/%d", d.Lookup("aggregateId").StringValue(), d.Lookup("eventId").AsInt64()))
		}
		return nil
	})
	if want := []string{"b/1", "b/2", "c/1", "c/2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}

func TestScanEndsAtPermanentErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault, want error
		text        string
	}{
		"no index":                  {fmt.Errorf("%w: create it", eventstore.ErrIndex), eventstore.ErrIndex, "create it"},
		"unauthorized":              {mongo.CommandError{Code: 13}, watch.ErrRefused, "grant the user"},
		"wrong password":            {mongo.CommandError{Code: 18}, watch.ErrRefused, "check the user"},
		"no min in find":            {mongo.CommandError{Code: 238}, watch.ErrRefused, "use MongoDB 6.0 or later"},
		"no majority":               {mongo.CommandError{Code: 148}, watch.ErrRefused, "majority"},
		"collection does not exist": {eventstore.ErrEnd, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := historySource{newEventStore()}
			source.readFault = func() error { return test.fault }
			err := scanAll(t.Context(), source, ScanOptions{}, ignore)
			if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestScanEndsWithItsHandlerAndItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := historySource{newEventStore()}
		source.fill("a", 100, false)
		broken := errors.New("no more")
		err := scanAll(t.Context(), source, ScanOptions{}, func(context.Context, []bson.Raw) error { return broken })
		if !errors.Is(err, broken) {
			t.Errorf("ended with %v, want the handler's error", err)
		}

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(broken) })
		var beat atomic.Int64
		err = scanAll(ctx, source, ScanOptions{Beat: func() { beat.Add(1) }}, func(ctx context.Context, _ []bson.Raw) error {
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
		source := historySource{newEventStore()}
		source.fill("a", 1, false)
		source.hang = true
		tries := 0
		source.readFault = func() error { tries++; return nil }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var last atomic.Int64
		began := time.Now()
		err := scanAll(ctx, source, ScanOptions{Timeout: time.Minute, Beat: func() { last.Store(int64(time.Since(began))) }}, ignore)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if after := time.Duration(last.Load()); after < time.Minute || after > 3*time.Minute {
			t.Errorf("beats ended after %v", after)
		}
		if tries < 5 {
			t.Errorf("tried %d times in 10 min", tries)
		}
	})
}

// Large events must not fill the memory while the topic does not accept them.
func TestPrefetchIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := historySource{newEventStore()}
		source.page = 1
		source.large(20, 1<<20)
		var read atomic.Int64
		source.readFault = func() error { read.Add(1); return nil }
		proceed := make(chan struct{})
		done := make(chan error, 1)
		handled := 0
		go func() {
			done <- scanAll(t.Context(), source, ScanOptions{PrefetchBytes: 5 << 19}, func(_ context.Context, documents []bson.Raw) error {
				<-proceed
				handled += len(documents)
				return nil
			})
		}()
		pass(time.Second)
		// Two pages of 1 MiB have room, and a third one waits.
		if n := read.Load(); n != 3 {
			t.Errorf("%d pages are read ahead, want 3", n)
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
		source := historySource{newEventStore()}
		source.large(3, 1<<20)
		handled := 0
		err := scanAll(t.Context(), source, ScanOptions{PrefetchBytes: 1}, func(_ context.Context, documents []bson.Raw) error {
			handled += len(documents)
			return nil
		})
		if err != nil || handled != 3 {
			t.Errorf("%d events were handled: %v", handled, err)
		}
	})
}
