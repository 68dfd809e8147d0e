package drain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// The benchmarks drain a broker with round trips of 4 ms into a store with writes of 4 ms.
const (
	benchRTT     = 4 * time.Millisecond
	benchLatency = 4 * time.Millisecond
)

func fill(broker *fakeBroker, n, sessions, aggregates int) {
	for i := range n {
		a := i % aggregates
		broker.send(fmt.Sprint("bucket-", a%sessions), fmt.Sprint("aggregate-", a), int64(i/aggregates)+1)
	}
}

func BenchmarkAcceptor(b *testing.B) {
	for _, sessions := range []int{1, 8, 64, 1000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			broker := newFakeBroker(benchRTT, time.Hour)
			fill(broker, b.N, sessions, 1000)
			b.ResetTimer()
			drainAll(b, broker)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(broker.accepts), "accepts")
		})
	}
}

// BenchmarkRareLargeMessages drains the same events without large messages and with one
// in a thousand, and reports the remaining share of the throughput.
func BenchmarkRareLargeMessages(b *testing.B) {
	const events, sessions, aggregates = 64_000, 64, 1000
	without := 0.0
	for _, size := range []int{0, 200 << 10, 900 << 10} {
		b.Run(fmt.Sprintf("KiB=%d", size>>10), func(b *testing.B) {
			rate := 0.0
			for b.Loop() {
				b.StopTimer()
				broker := newFakeBroker(benchRTT, time.Hour)
				for i := range events {
					a, id, payload := i%aggregates, int64(i/aggregates)+1, 100
					if size > 0 && i%1000 == i/1000 {
						payload = size
					}
					key := fmt.Sprint("aggregate-", a)
					broker.sendBody(fmt.Sprint("bucket-", a%sessions), fmt.Sprintf("%s/%d", key, id), sized(key, id, payload))
				}
				b.StartTimer()
				begin := time.Now()
				drainAll(b, broker)
				rate = events / time.Since(begin).Seconds()
			}
			if size == 0 {
				without = rate
			}
			b.ReportMetric(rate, "events/s")
			b.ReportMetric(rate/without, "of-those-without")
		})
	}
}

// drainAll drains a broker until every message is settled.
func drainAll(b *testing.B, broker *fakeBroker) {
	b.Helper()
	a := drain.New(optionsFor(broker, newReadModels(benchLatency)))
	stop := testkit.Start(b, a.Run)
	for broker.unsettled() > 0 {
		pause(b.Context(), time.Millisecond)
	}
	stop()
}
