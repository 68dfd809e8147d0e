package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

// at returns the position of the nth event of a stream.
func at(n int) checkpoint.Position {
	return checkpoint.Position{
		Token:       bson.Raw(fmt.Sprintf("token-%08d", n)),
		ClusterTime: bson.Timestamp{T: uint32(n), I: 1},
	}
}

// postBatch returns the post-batch token after the nth event.
func postBatch(n int) checkpoint.Position {
	return checkpoint.Position{Token: bson.Raw(fmt.Sprintf("token-%08d+", n))}
}

// scanned returns a scan's position after an event.
func scanned(aggregateID string, eventID int64) checkpoint.Position {
	return checkpoint.Position{Scan: checkpoint.Scan{
		OperationTime: bson.Timestamp{T: 7},
		AggregateID:   testkit.Value(aggregateID),
		EventID:       eventID,
	}}
}

func same(a, b checkpoint.Position) bool {
	return bytes.Equal(a.Token, b.Token) && a.ClusterTime == b.ClusterTime &&
		a.Scan.OperationTime == b.Scan.OperationTime && a.Scan.EventID == b.Scan.EventID &&
		a.Scan.AggregateID.Equal(b.Scan.AggregateID)
}

// add adds events at positions and returns their handles.
func add(tb testing.TB, w *checkpoint.Watermark, positions ...checkpoint.Position) []checkpoint.Handle {
	tb.Helper()
	handles := make([]checkpoint.Handle, len(positions))
	for i, p := range positions {
		h, err := w.Add(context.Background(), p)
		if err != nil {
			tb.Fatal(err)
		}
		handles[i] = h
	}
	return handles
}

func expectLow(t *testing.T, w *checkpoint.Watermark, want checkpoint.Position) {
	t.Helper()
	if got, _ := w.Low(); !same(got, want) {
		t.Errorf("low watermark is %v, want %v", got, want)
	}
}

func TestWatermarkFollowsTheOldestUnacknowledgedEvent(t *testing.T) {
	t.Parallel()
	w := checkpoint.NewWatermark(100)
	if p, moves := w.Low(); !p.IsZero() || moves != 0 {
		t.Errorf("an empty watermark is at %v after %d moves, want no position and 0", p, moves)
	}
	h := add(t, w, at(1), at(2), at(3), at(4))
	w.Ack(h[1], h[3])
	w.Ack(h[3]) // again
	expectLow(t, w, checkpoint.Position{})
	if w.Window() != 4 {
		t.Errorf("%d in the window, want 4", w.Window())
	}
	w.Ack(h[0])
	expectLow(t, w, at(2))
	w.Ack(h[0], h[1]) // again
	expectLow(t, w, at(2))
	if w.Window() != 2 {
		t.Errorf("%d in the window, want 2", w.Window())
	}
	w.Ack(h[2])
	expectLow(t, w, at(4))
	if w.Window() != 0 {
		t.Errorf("%d in the window, want 0", w.Window())
	}
	w.Ack(checkpoint.Handle(99)) // never added
	expectLow(t, w, at(4))
}

func TestWatermarkCopiesPositions(t *testing.T) {
	t.Parallel()
	w := checkpoint.NewWatermark(100)
	p := at(1)
	h := add(t, w, p)
	copy(p.Token, "overwritten!!!")
	w.Ack(h...)
	low, _ := w.Low()
	if !same(low, at(1)) {
		t.Errorf("low watermark is %s, which the caller wrote to", low.Token)
	}
	w.Ack(add(t, w, at(2))...)
	if !same(low, at(1)) {
		t.Errorf("position that Low returned became %s", low.Token)
	}
}

func TestWatermarkAdvancesWhenIdle(t *testing.T) {
	t.Parallel()
	w := checkpoint.NewWatermark(100)
	w.Mark(postBatch(0))
	expectLow(t, w, postBatch(0))
	_, before := w.Low()
	w.Mark(postBatch(0))
	if _, moves := w.Low(); moves != before {
		t.Error("the same mark moved the watermark")
	}
	h := add(t, w, at(1), at(2))
	w.Mark(postBatch(2))
	w.Mark(postBatch(2)) // an idle stream repeats its token, which takes no room
	w.Mark(checkpoint.Position{Token: bson.Raw("token-00000002++")})
	if w.Window() != 3 {
		t.Errorf("window is %d, want two events and a mark", w.Window())
	}
	w.Ack(h[1])
	expectLow(t, w, postBatch(0))
	w.Ack(h[0])
	expectLow(t, w, checkpoint.Position{Token: bson.Raw("token-00000002++")})
}

// A scan, its end, and the stream after it are one sequence.
func TestWatermarkAdvancesFromScanToStream(t *testing.T) {
	t.Parallel()
	w := checkpoint.NewWatermark(100)
	start := checkpoint.Position{Scan: checkpoint.Scan{OperationTime: bson.Timestamp{T: 7}}}
	w.Mark(start)
	expectLow(t, w, start)
	h := add(t, w, scanned("a", 1), scanned("b", 1), scanned("b", 2))
	w.Ack(h[0], h[1])
	expectLow(t, w, scanned("b", 1))
	end := checkpoint.Position{ClusterTime: bson.Timestamp{T: 7}}
	w.Mark(end)
	stream := add(t, w, at(8))
	w.Ack(stream...)
	expectLow(t, w, scanned("b", 1))
	w.Ack(h[2])
	expectLow(t, w, at(8))

	w = checkpoint.NewWatermark(100)
	h = add(t, w, scanned("a", 1))
	w.Mark(end)
	w.Ack(h...)
	expectLow(t, w, end)
	_, before := w.Low()
	w.Mark(end)
	if _, moves := w.Low(); moves != before {
		t.Error("the same mark moved the watermark")
	}
}

func TestWatermarkBoundsItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := checkpoint.NewWatermark(3)
		h := add(t, w, at(1), at(2), at(3))
		added := make(chan checkpoint.Handle, 1)
		go func() {
			h, err := w.Add(t.Context(), at(4))
			if err != nil {
				t.Error(err)
			}
			added <- h
		}()
		w.Ack(h[2])
		synctest.Wait()
		if len(added) != 0 {
			t.Fatal("a fourth event was added to a window of three")
		}
		w.Mark(postBatch(3)) // never waits
		w.Ack(h[1])          // takes no room beside the acknowledged one behind it
		fourth := <-added
		w.Ack(h[0])
		w.Ack(fourth)
		expectLow(t, w, at(4))

		add(t, w, at(5), at(6), at(7))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("stop"))
		defer cancel()
		if _, err := w.Add(ctx, at(8)); err == nil || err.Error() != "wait for acknowledgements: stop" {
			t.Errorf("Add returned %v, want the context's cause", err)
		}
		if w.Window() != 3 {
			t.Errorf("window is %d, want 3", w.Window())
		}
	})
}

// One event waits while any number of others passes it, and nobody has to hold them.
func TestManyEventsPassOneThatWaits(t *testing.T) {
	t.Parallel()
	w := checkpoint.NewWatermark(8)
	waiting := add(t, w, at(1))
	for n := 2; n < 10_000; n += 3 {
		h := add(t, w, at(n), at(n+1), at(n+2))
		w.Ack(h[2], h[0])
		w.Ack(h[1])
		if w.Window() != n+2 { // a failover repeats all of them
			t.Fatalf("%d events are in the window, want %d", w.Window(), n+2)
		}
	}
	if low, _ := w.Low(); !low.IsZero() {
		t.Errorf("the watermark %v has passed the event that waits", low)
	}
	w.Ack(waiting[0])
	expectLow(t, w, at(10_000))
}

// TestWatermarkEqualsTheModel compares the watermark with a list. Whatever is added, marked
// and acknowledged in any order, the low watermark is the last position up to which
// everything is acknowledged. In the end it is the last position.
func TestWatermarkEqualsTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			position checkpoint.Position
			handle   checkpoint.Handle
			acked    bool
			mark     bool
		}
		w := checkpoint.NewWatermark(1 << 20)
		var list []entry
		var open []int // indices of events that are not acknowledged
		check := func(t *rapid.T) {
			want, unacked := checkpoint.Position{}, 0
			for _, e := range list {
				if !e.acked {
					unacked++
				}
				if unacked == 0 {
					want = e.position
				}
			}
			got, _ := w.Low()
			if !same(got, want) {
				t.Fatalf("low watermark is %v, want %v", got, want)
			}
		}
		acknowledge := func(i int) {
			list[open[i]].acked = true
			w.Ack(list[open[i]].handle)
			open = append(open[:i], open[i+1:]...)
		}
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 2000).Draw(t, "events") {
					n++
					p := at(n)
					if n%7 == 0 {
						p = scanned(fmt.Sprint(n), int64(n))
					}
					h, err := w.Add(context.Background(), p)
					if err != nil {
						t.Fatal(err)
					}
					open = append(open, len(list))
					list = append(list, entry{position: p, handle: h})
				}
			},
			"mark": func(*rapid.T) {
				n++
				if len(list) > 0 && list[len(list)-1].mark {
					list = list[:len(list)-1]
				}
				list = append(list, entry{position: postBatch(n), acked: true, mark: true})
				w.Mark(postBatch(n))
			},
			"acknowledge in order": func(t *rapid.T) {
				for range rapid.IntRange(0, len(open)).Draw(t, "events") {
					acknowledge(0)
				}
			},
			"acknowledge in any order": func(t *rapid.T) {
				for range rapid.IntRange(0, min(len(open), 50)).Draw(t, "events") {
					acknowledge(rapid.IntRange(0, len(open)-1).Draw(t, "which"))
				}
			},
			"": check,
		})
		for len(open) > 0 {
			acknowledge(len(open) - 1)
		}
		check(t)
		if len(list) > 0 {
			if got, _ := w.Low(); !same(got, list[len(list)-1].position) {
				t.Fatalf("in the end, the low watermark is %v, want the last position %v", got, list[len(list)-1].position)
			}
		}
	})
}

func TestWatermarkAllocatesNothing(t *testing.T) {
	w := checkpoint.NewWatermark(10_000)
	p := at(1)
	handles := make([]checkpoint.Handle, 1000)
	round := func() {
		for i := range handles {
			handles[i], _ = w.Add(context.Background(), p)
		}
		for i := len(handles) - 1; i >= 0; i-- {
			w.Ack(handles[i])
		}
		w.Mark(p)
	}
	round()
	// The driver's heartbeats to the stand-in allocate in the same process, so the smallest
	// of several counts is that of the watermark.
	least := math.Inf(1)
	for range 50 {
		least = min(least, testing.AllocsPerRun(5, round))
	}
	if least > 0 {
		t.Errorf("%v allocations in %d events, want none", least, len(handles))
	}
}

// BenchmarkWatermark adds and acknowledges one event, with 1,000 in flight that are
// acknowledged out of order. The second variant has an event that is acknowledged only when
// the window is full.
func BenchmarkWatermark(b *testing.B) {
	token := checkpoint.Position{Token: bytes.Repeat([]byte{'t'}, 120), ClusterTime: bson.Timestamp{T: 1}}
	run := func(b *testing.B, stall bool) {
		b.Helper()
		const flight = 1000
		w := checkpoint.NewWatermark(checkpoint.DefaultWindow)
		order := rand.New(rand.NewPCG(1, 2)).Perm(flight)
		handles := make([]checkpoint.Handle, flight)
		stalled := add(b, w, token)[0]
		if !stall {
			w.Ack(stalled)
		}
		for i := range handles {
			handles[i] = add(b, w, token)[0]
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			j := order[i%flight]
			w.Ack(handles[j])
			handles[j], _ = w.Add(context.Background(), token)
			i++
			if stall && i%(checkpoint.DefaultWindow-2*flight) == 0 {
				w.Ack(stalled)
				stalled, _ = w.Add(context.Background(), token)
			}
		}
	}
	b.Run("moving", func(b *testing.B) { run(b, false) })
	b.Run("stalled", func(b *testing.B) { run(b, true) })
}
