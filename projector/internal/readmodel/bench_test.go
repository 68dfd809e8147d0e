package readmodel

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// distant is a database whose updates only take time, because the benchmark measures the
// grouping. It answers no other request.
type distant struct {
	database
	latency time.Duration
	calls   atomic.Int64
}

func (d *distant) update(ctx context.Context, _ string, updates []update) (int, error) {
	d.calls.Add(1)
	return len(updates), poll.Wait(ctx, d.latency)
}

// BenchmarkWriter measures operations per second against a database that is 1 ms away,
// for several numbers of sessions.
func BenchmarkWriter(b *testing.B) {
	document := testkit.Raw(bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: "some value"}, {Key: "b", Value: int64(5)}}}})
	operation := func(session, i int) model.Write {
		return model.Write{Unit: keyOf(fmt.Sprintf("session-%d", session)), Kind: model.Update, From: int64(i), To: int64(i + 1), Update: document}
	}
	for _, sessions := range []int{1, 8, 64, 256, 1024} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			db := &distant{latency: time.Millisecond}
			w := newWriter(db, WriterOptions{})
			ctx, cancel := context.WithCancel(b.Context())
			var loop, work sync.WaitGroup
			loop.Go(func() { _ = w.Run(ctx) })
			b.ReportAllocs()
			b.ResetTimer()
			for session := range sessions {
				work.Go(func() {
					for i := session; i < b.N; i += sessions {
						results, err := w.Write(ctx, []model.Write{operation(session, i)})
						if err != nil || results[0].Status != model.Applied {
							b.Error(results, err)
							return
						}
					}
				})
			}
			work.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
			b.ReportMetric(float64(b.N)/float64(db.calls.Load()), "ops/call")
			cancel()
			loop.Wait()
		})
	}
}
