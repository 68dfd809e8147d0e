package checkpoint

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// One event waits while any number of others passes it, and nobody has to hold them.
func TestManyEventsPassOneThatWaits(t *testing.T) {
	t.Parallel()
	w := NewWatermark()
	add := func(n int) Handle { return w.Add(Position{ClusterTime: bson.Timestamp{T: uint32(n)}}) }
	waiting := add(1)
	for n := 2; n < 10_000; n += 3 {
		a, b, c := add(n), add(n+1), add(n+2)
		w.Ack(c, a)
		w.Ack(b)
		if w.Window() != n+2 { // a failover repeats all of them
			t.Fatalf("%d events are in the window, want %d", w.Window(), n+2)
		}
		held := 0
		for s := w.first; s != nil; s = s.after {
			held++
		}
		if held > 2 || len(w.waiting) != 1 {
			t.Fatalf("%d slots are held and %d events wait, want 2 and 1", held, len(w.waiting))
		}
	}
	if low, _ := w.Low(); !low.IsZero() {
		t.Errorf("the watermark %v has passed the event that waits", low)
	}
	w.Ack(waiting)
	if low, _ := w.Low(); low.ClusterTime.T != 10_000 {
		t.Errorf("low watermark is %v, want the last event", low)
	}
}
