package drain_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Both benchmarks drain a broker with round trips of 4 ms into a store with writes of 4
// ms. BenchmarkPlainLoop measures the simplest loop: accept, receive one, update one,
// complete one.
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

func BenchmarkPlainLoop(b *testing.B) {
	broker := newFakeBroker(benchRTT, time.Hour)
	fill(broker, b.N, 64, 1000)
	m := newReadModels(benchLatency)
	reader, err := event.NewReader(event.DefaultFields())
	if err != nil {
		b.Fatal(err)
	}
	conn, err := broker.Dial()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for broker.unsettled() > 0 {
		accept, cancel := context.WithTimeout(b.Context(), time.Minute)
		session, err := conn.Accept(accept, time.Minute)
		cancel()
		if err != nil {
			b.Fatal(err)
		}
		for {
			ctx, cancel := context.WithTimeout(b.Context(), 50*time.Millisecond)
			messages, err := session.ReceiveMessages(ctx, 1, &azservicebus.ReceiveMessagesOptions{})
			cancel()
			if err != nil {
				break
			}
			doc, err := event.DecodeBody(*messages[0].ContentType, messages[0].Body)
			if err != nil {
				b.Fatal(err)
			}
			ev, err := reader.Read(doc)
			if err != nil {
				b.Fatal(err)
			}
			m.Handle(b.Context(), []*drain.Delivery{{Event: ev}}, model.Hold)
			ctx, cancel = context.WithTimeout(b.Context(), time.Second)
			if err := session.CompleteMessage(ctx, messages[0], nil); err != nil {
				b.Fatal(err)
			}
			cancel()
		}
		if err := session.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkAcceptor(b *testing.B) {
	for _, sessions := range []int{1, 8, 64, 1000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			broker := newFakeBroker(benchRTT, time.Hour)
			fill(broker, b.N, sessions, 1000)
			b.ResetTimer()
			drainAll(b, broker)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(broker.released), "released")
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
	reader, err := event.NewReader(event.DefaultFields())
	if err != nil {
		b.Fatal(err)
	}
	a := drain.New(drain.Options{Dial: broker.Dial, Handler: newReadModels(benchLatency), Reader: reader})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	for broker.unsettled() > 0 {
		pause(b.Context(), time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
