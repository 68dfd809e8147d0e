package readmodel

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// distant is a database whose requests only take time, because the benchmark measures the
// grouping.
type distant struct {
	latency time.Duration
	calls   atomic.Int64
}

var _ database = (*distant)(nil)

func (d *distant) wait(ctx context.Context) error {
	d.calls.Add(1)
	timer := time.NewTimer(d.latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *distant) find(ctx context.Context, _ string, _, _ bson.Raw, _ int) ([]bson.Raw, error) {
	return nil, d.wait(ctx)
}

func (d *distant) page(ctx context.Context, _ string, _, _ bson.Raw, _, _ int) ([]bson.Raw, bool, error) {
	return nil, true, d.wait(ctx)
}

func (d *distant) each(ctx context.Context, _ string, _ bson.Raw, _ func(bson.Raw) error) error {
	return d.wait(ctx)
}

func (d *distant) exists(ctx context.Context, _ string) (bool, error) { return true, d.wait(ctx) }

func (d *distant) insert(ctx context.Context, _ string, _ []bson.Raw) error { return d.wait(ctx) }

func (d *distant) update(ctx context.Context, _ string, updates []update) (int, error) {
	return len(updates), d.wait(ctx)
}

func (d *distant) remove(ctx context.Context, _ string, filters []bson.Raw) (int, error) {
	return len(filters), d.wait(ctx)
}

func (d *distant) transaction(ctx context.Context, do func(context.Context) error) error {
	if err := do(ctx); err != nil {
		return err
	}
	return d.wait(ctx)
}

// BenchmarkWriter measures operations per second against a database that is 1 ms away:
// one by one, and grouped for several numbers of sessions.
func BenchmarkWriter(b *testing.B) {
	document := bsontest.Raw(bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: "some value"}, {Key: "b", Value: int64(5)}}}})
	operation := func(session, i int) model.Write {
		return model.Write{Unit: keyOf(fmt.Sprintf("session-%d", session)), Kind: model.Update, From: int64(i), To: int64(i + 1), Update: document}
	}
	b.Run("one-by-one", func(b *testing.B) {
		db := &distant{latency: time.Millisecond}
		for i := range b.N {
			o := operation(0, i)
			if n, err := db.update(b.Context(), "things", []update{guardedUpdate(&o, time.Now())}); n != 1 || err != nil {
				b.Fatal(n, err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	})
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
