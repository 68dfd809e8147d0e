package publish_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// roundTrip is the round trip time of the benchmarks' broker: 2 ms each way.
const roundTrip = 4 * time.Millisecond

// wire is a connection whose sends take one round trip and no CPU time.
type wire struct{ rtt time.Duration }

func (w wire) Send(ctx context.Context, messages []*event.Message) (int, error) {
	if w.rtt > 0 {
		if poll.Wait(ctx, w.rtt) != nil {
			return 0, ctx.Err()
		}
	}
	return len(messages), nil
}

func (wire) Close(context.Context) error { return nil }

// reusing makes messages without a body, so encoding costs almost nothing.
type reusing struct{}

func (reusing) SessionKey(aggregateID string) string { return aggregateID }

func (reusing) Encode(ev *event.Event, epoch int64) (event.Message, error) {
	return event.Message{Keys: ev.Keys, SessionKey: ev.AggregateID, Epoch: epoch}, nil
}

func (reusing) Size(*event.Event) (int, error) { return 0, nil }

func (e reusing) EncodeClaimCheck(ev *event.Event, epoch int64) (event.Message, error) {
	return e.Encode(ev, epoch)
}

// dispatch sends n events through a dispatcher over wires, and returns the time.
func dispatch(tb testing.TB, n, keys int, rtt time.Duration, policy publish.Batching) time.Duration {
	tb.Helper()
	var acked atomic.Int64
	d := publish.New(publish.Options{
		Connect:    func(context.Context) (publish.Sender, error) { return wire{rtt}, nil },
		Encoder:    reusing{},
		Acked:      func(tickets []uint64) { acked.Add(int64(len(tickets))) },
		Quarantine: func(context.Context, *publish.Item, error) error { return nil },
		Batching:   policy,
	})
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("aggregate-", i)
	}
	ran := make(chan error, 1)
	go func() { ran <- d.Run(tb.Context()) }()
	it := publish.Item{Event: event.Event{Document: make(bson.Raw, 500)}}
	start := time.Now()
	for i := range n {
		it.Event.AggregateID, it.Event.EventID = names[i%keys], int64(i/keys+1)
		if err := d.Submit(tb.Context(), it); err != nil {
			tb.Fatal(err)
		}
	}
	if err := d.Drain(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	took := time.Since(start)
	if err := <-ran; err != nil {
		tb.Fatal(err)
	}
	if acked.Load() != int64(n) {
		tb.Fatalf("%d of %d events acknowledged", acked.Load(), n)
	}
	return took
}

// BenchmarkDispatcher measures events per second over a broker with round trips of 4 ms.
func BenchmarkDispatcher(b *testing.B) {
	for _, load := range []struct {
		name   string
		keys   int
		policy publish.Batching
	}{
		{"few keys/mixed", 8, publish.BatchingMixed},
		{"few keys/session", 8, publish.BatchingSession},
		{"many keys/mixed", 100_000, publish.BatchingMixed},
		{"many keys/session", 100_000, publish.BatchingSession},
		{"many keys/off", 100_000, publish.BatchingOff},
	} {
		b.Run(load.name, func(b *testing.B) {
			b.ReportAllocs()
			took := dispatch(b, b.N, load.keys, roundTrip, load.policy)
			b.ReportMetric(float64(b.N)/took.Seconds(), "events/s")
		})
	}
}

// BenchmarkOverhead measures the CPU time of the dispatcher for an event.
func BenchmarkOverhead(b *testing.B) {
	for _, keys := range []int{8, 100_000} {
		b.Run(fmt.Sprintf("%d keys", keys), func(b *testing.B) {
			b.ReportAllocs()
			dispatch(b, b.N, keys, 0, publish.BatchingMixed)
		})
	}
}
