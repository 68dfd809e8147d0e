package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
)

const (
	// eventsPerSession is what a session holds, as with short-lived aggregates.
	eventsPerSession = 4
	// sessionSlots are held at the same time.
	sessionSlots = 64
)

// receiver is what a slot needs of an accepted session.
type receiver interface {
	ReceiveMessages(ctx context.Context, most int, o *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.CompleteMessageOptions) error
	Close(ctx context.Context) error
}

// BenchmarkSessions accepts sessions, receives and settles their messages and releases
// them, and does nothing else: the limit of a projector whose aggregates are short-lived.
func BenchmarkSessions(b *testing.B) {
	for _, bench := range []struct {
		name        string
		connections int
		sessions    int
		dial        func(b *testing.B, bus harness.Bus) func(context.Context) (receiver, error)
	}{
		{"amqp", 4, 4000, dialAMQP},
		{"sdk", 16, 1000, dialSDK},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for range b.N {
				backend, err := harness.StartEmbedded(harness.EmbeddedOptions{Latency: latency})
				must(b, err)
				bus := backend.Bus()
				fillSessions(b, bus, bench.sessions)
				var slots sync.WaitGroup
				var left atomic.Int64
				left.Store(int64(bench.sessions))
				started := time.Now()
				for range bench.connections {
					accept := bench.dial(b, bus)
					for range sessionSlots / bench.connections {
						slots.Go(func() {
							for left.Add(-1) >= 0 {
								if err := drainSession(b.Context(), accept); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
				}
				slots.Wait()
				took := time.Since(started).Seconds()
				b.ReportMetric(float64(bench.sessions)/took, "sessions/s")
				b.ReportMetric(float64(bench.sessions*eventsPerSession)/took, "events/s")
				b.ReportMetric(0, "ns/op")
				must(b, backend.Close())
			}
		})
	}
}

// drainSession accepts a session and empties it.
func drainSession(ctx context.Context, accept func(context.Context) (receiver, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := accept(ctx)
	if err != nil {
		return err
	}
	var settled sync.WaitGroup
	var failed atomic.Pointer[error]
	for received := 0; received < eventsPerSession; {
		messages, err := r.ReceiveMessages(ctx, eventsPerSession-received, nil)
		if err != nil {
			return err
		}
		received += len(messages)
		for _, m := range messages {
			settled.Go(func() {
				if err := r.CompleteMessage(ctx, m, nil); err != nil {
					failed.Store(&err)
				}
			})
		}
	}
	settled.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return r.Close(ctx)
}

func dialAMQP(b *testing.B, bus harness.Bus) func(context.Context) (receiver, error) {
	b.Helper()
	namespace, err := sbus.Open(sbus.Config{ConnectionString: bus.ConnectionString, Topic: bus.Topic})
	must(b, err)
	c := sessions.New(sessions.Options{Namespace: namespace, Topic: bus.Topic, Subscription: bus.Subscription})
	b.Cleanup(func() { _ = c.Close(context.Background()) })
	return func(ctx context.Context) (receiver, error) { return c.Accept(ctx, time.Minute) }
}

func dialSDK(b *testing.B, bus harness.Bus) func(context.Context) (receiver, error) {
	b.Helper()
	c, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString, nil)
	must(b, err)
	b.Cleanup(func() { _ = c.Close(context.Background()) })
	return func(ctx context.Context) (receiver, error) {
		return c.AcceptNextSessionForSubscription(ctx, bus.Topic, bus.Subscription, nil)
	}
}

// fillSessions sends the messages of all sessions in batches.
func fillSessions(b *testing.B, bus harness.Bus, n int) {
	b.Helper()
	c, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString, nil)
	must(b, err)
	defer c.Close(context.Background())
	s, err := c.NewSender(bus.Topic, nil)
	must(b, err)
	batch, err := s.NewMessageBatch(b.Context(), nil)
	must(b, err)
	for round := range eventsPerSession {
		for i := range n {
			session := fmt.Sprint("session-", i)
			id := fmt.Sprint(session, "/", round)
			m := &azservicebus.Message{Body: make([]byte, 300), SessionID: &session, PartitionKey: &session, MessageID: &id}
			if batch.AddMessage(m, nil) == nil {
				continue
			}
			must(b, s.SendMessageBatch(b.Context(), batch, nil))
			batch, err = s.NewMessageBatch(b.Context(), nil)
			must(b, err)
			must(b, batch.AddMessage(m, nil))
		}
	}
	must(b, s.SendMessageBatch(b.Context(), batch, nil))
}
