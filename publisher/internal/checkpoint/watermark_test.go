package checkpoint_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

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
		handles[i] = w.Add(p)
	}
	return handles
}

func expectLow(t *testing.T, w *checkpoint.Watermark, want checkpoint.Position) {
	t.Helper()
	if got, _ := w.Low(); !same(got, want) {
		t.Errorf("low watermark is %v, want %v", got, want)
	}
}

func TestWatermarkCopiesPositions(t *testing.T) {
	t.Parallel()
	w := checkpoint.NewWatermark()
	p := at(1)
	h := add(t, w, p)
	copy(p.Token, "overwritten!!!")
	w.Ack(h...)
	low, _ := w.Low()
	if !same(low, at(1)) {
		t.Errorf("low watermark is %s, which the caller wrote to", low.Token)
	}
	for n := 2; n < 5; n++ { // the watermark uses its slots again
		w.Ack(add(t, w, at(n))...)
	}
	if !same(low, at(1)) {
		t.Errorf("position that Low returned became %s", low.Token)
	}
}

func TestWatermarkAdvancesWhenIdle(t *testing.T) {
	t.Parallel()
	w := checkpoint.NewWatermark()
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

	// So is the time at which a stream begins after a scan.
	end := checkpoint.Position{ClusterTime: bson.Timestamp{T: 7}}
	w.Mark(end)
	_, before = w.Low()
	w.Mark(end)
	if _, moves := w.Low(); moves != before {
		t.Error("the same time moved the watermark")
	}
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
		w := checkpoint.NewWatermark()
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
			// Again, and one that was never added.
			w.Ack(list[open[i]].handle, list[open[i]].handle, checkpoint.Handle(1<<40))
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
					h := w.Add(p)
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

// BenchmarkWatermark adds and acknowledges one event, with 1,000 in flight that are
// acknowledged out of order. The second variant has an event that waits.
func BenchmarkWatermark(b *testing.B) {
	token := checkpoint.Position{Token: bytes.Repeat([]byte{'t'}, 120), ClusterTime: bson.Timestamp{T: 1}}
	run := func(b *testing.B, stall bool) {
		b.Helper()
		const flight = 1000
		w := checkpoint.NewWatermark()
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
			handles[j] = w.Add(token)
			i++
		}
	}
	b.Run("moving", func(b *testing.B) { run(b, false) })
	b.Run("stalled", func(b *testing.B) { run(b, true) })
}
