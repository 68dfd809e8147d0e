package watch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

var atStart = watch.Position{Time: bson.Timestamp{T: uint32(epoch.Unix()), I: 1}}

// running is a watcher that runs in virtual time.
type running struct {
	*recorder
	cancel context.CancelCauseFunc
	result chan error
}

// beats records the time of the last heartbeat, and the longest interval between two.
type beats struct{ at, longest atomic.Int64 }

func (b *beats) beat() {
	now := time.Now().UnixNano()
	if last := b.at.Swap(now); last != 0 && now-last > b.longest.Load() {
		b.longest.Store(now - last)
	}
}

// pause returns the longest interval without a heartbeat since the first one.
func (b *beats) pause() time.Duration {
	return max(time.Duration(b.longest.Load()), b.ago())
}

func (b *beats) last() time.Time    { return time.Unix(0, b.at.Load()) }
func (b *beats) ago() time.Duration { return time.Since(b.last()) }

func start(t *testing.T, store *fakeStore, from watch.Position, options watch.Options, r *recorder) *running {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	run := &running{recorder: r, cancel: cancel, result: make(chan error, 1)}
	go func() { run.result <- watch.New(store, options).Run(ctx, from, r.handle) }()
	return run
}

func (r *running) stop() error {
	r.cancel(errEnough)
	return <-r.result
}

// end stops the watcher, which must still be running.
func (r *running) end(t *testing.T) {
	t.Helper()
	if err := r.stop(); !errors.Is(err, errEnough) {
		t.Error(err)
	}
}

func (r *running) seen() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

// numbers are 1 to n.
func numbers(to int64) []int64 {
	var all []int64
	for n := int64(1); n <= to; n++ {
		all = append(all, n)
	}
	return all
}

func TestWatcherPassesInsertsInOrderAndPositionsWhenIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(7)
		run := start(t, store, atStart, watch.Options{}, &recorder{})
		synctest.Wait()
		if got := run.seen(); !slices.Equal(got, numbers(7)) {
			t.Fatalf("handled %v", got)
		}
		run.mu.Lock()
		before := len(run.batches)
		first := run.batches[0]
		run.mu.Unlock()
		if len(first.Inserts) != 3 || first.Time.T != uint32(epoch.Unix())+2 {
			t.Errorf("first batch has %d inserts up to %v", len(first.Inserts), first.Time)
		}

		testkit.Pass(3500 * time.Millisecond)
		store.insert()
		synctest.Wait()
		if got := run.seen(); !slices.Equal(got, numbers(8)) {
			t.Errorf("handled %v", got)
		}
		run.mu.Lock()
		marks := 0
		for _, batch := range run.batches[before:] {
			if len(batch.Inserts) == 0 && batch.Token != nil {
				marks++
			}
		}
		run.mu.Unlock()
		if marks != 3 {
			t.Errorf("%d positions in 3.5 idle seconds, want 3", marks)
		}
		if err := run.stop(); !errors.Is(err, errEnough) {
			t.Errorf("ended with %v, want the cause", err)
		}
		if store.closed != store.opened() {
			t.Errorf("%d streams closed of %d", store.closed, store.opened())
		}
	})
}

func TestFailedStreamIsReopenedAtItsPositionWithBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(10)
		store.faults[4] = mongo.CommandError{Code: 43, Name: "CursorNotFound"}
		for range 12 {
			store.refuse = append(store.refuse, io.ErrUnexpectedEOF)
		}
		began := time.Now()
		run := start(t, store, atStart, watch.Options{}, &recorder{})
		testkit.Pass(20 * time.Second)
		if n := len(run.seen()); n != 0 {
			t.Errorf("%d events while the server refuses", n)
		}
		if tried := store.opened(); tried < 5 || tried > 11 {
			t.Errorf("tried %d times in 20 s", tried)
		}
		testkit.Pass(2 * time.Minute)
		if got := run.seen(); !slices.Equal(got, numbers(10)) {
			t.Errorf("handled %v after %v", got, time.Since(began))
		}
		run.end(t)
	})
}

func TestChangesOtherThanInsertsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(1)
		for _, op := range []string{"update", "replace", "delete", "delete"} {
			fields := bson.M{}
			if op == "replace" {
				fields["fullDocument"] = bson.M{"eventId": 99}
			}
			store.append(op, fields)
		}
		store.insert()
		registry := prometheus.NewRegistry()
		run := start(t, store, atStart, watch.Options{Metrics: watch.NewMetrics(registry)}, &recorder{})
		testkit.Pass(time.Second)
		if got := run.seen(); !slices.Equal(got, []int64{1, 6}) {
			t.Errorf("handled %v", got)
		}
		want := `
# HELP penstock_publisher_source_mutations_total Changes of stored events and of their collection, which should be immutable, by operation: update, replace, delete, drop, rename, dropDatabase, invalidate or other. They are not published.
# TYPE penstock_publisher_source_mutations_total counter
penstock_publisher_source_mutations_total{operation="delete"} 2
penstock_publisher_source_mutations_total{operation="drop"} 0
penstock_publisher_source_mutations_total{operation="dropDatabase"} 0
penstock_publisher_source_mutations_total{operation="invalidate"} 0
penstock_publisher_source_mutations_total{operation="other"} 0
penstock_publisher_source_mutations_total{operation="rename"} 0
penstock_publisher_source_mutations_total{operation="replace"} 1
penstock_publisher_source_mutations_total{operation="update"} 1
# HELP penstock_publisher_events_read_total Events read from the change stream.
# TYPE penstock_publisher_events_read_total counter
penstock_publisher_events_read_total 2
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "penstock_publisher_source_mutations_total",
			"penstock_publisher_events_read_total"); err != nil {
			t.Error(err)
		}
		run.end(t)
	})
}

// A position after the change that ended the collection would hide that change from the
// next term.
func TestStreamEndsBeforeTheChangeThatEndsItsCollection(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"drop", "rename", "dropDatabase", "invalidate"} {
		for _, inserts := range []int{0, 3} {
			t.Run(fmt.Sprintf("%s after %d inserts", op, inserts), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					store := newFakeStore(inserts)
					store.append(op, nil)
					if op != "invalidate" {
						store.append("invalidate", nil)
					}
					// The connection breaks before the invalidate.
					end := len(store.log) - 1
					store.faults[end] = io.EOF
					store.insert()
					run := start(t, store, atStart, watch.Options{}, &recorder{})
					if err := <-run.result; !errors.Is(err, watch.ErrInvalidated) {
						t.Fatalf("ended with %v", err)
					}
					if got := len(run.seen()); got != inserts {
						t.Errorf("handled %d events, not %d", got, inserts)
					}
					for _, batch := range run.batches {
						if batch.Token != nil && tokenIn(batch.Token)[:8] > tokenIn(token(inserts, 0))[:8] {
							t.Errorf("position %v is after the change", batch.Token)
						}
					}
				})
			})
		}
	}
}

func TestWatcherEndsAtPermanentErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault error
		want  error
		text  string
	}{
		"history lost": {mongo.CommandError{Code: 286, Message: "no longer in the oplog"}, watch.ErrHistoryLost, "no longer in the oplog"},
		"unauthorized": {mongo.CommandError{Code: 13, Message: "not authorized"}, watch.ErrRefused, "grant the user"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newFakeStore(6)
				store.faults[5] = test.fault
				run := start(t, store, atStart, watch.Options{}, &recorder{})
				err := <-run.result
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
					t.Errorf("ended with %v", err)
				}
				if got := run.seen(); !slices.Equal(got, numbers(3)) {
					t.Errorf("handled %v: what was read before the end is handled", got)
				}
			})
		})
	}
}

func TestWatcherEndsWithItsHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(1)
		broken := errors.New("no more")
		run := start(t, store, atStart, watch.Options{}, &recorder{err: broken})
		if err := <-run.result; !errors.Is(err, broken) {
			t.Errorf("ended with %v", err)
		}
	})
}
