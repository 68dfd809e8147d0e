package refold

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// liveRate is how many live events a second there are, over liveSessions.
	liveRate     = 400
	liveSessions = 8
	// liveFor is how long each measurement lasts.
	liveFor = 6 * time.Second
)

// BenchmarkLiveLag measures how long a live event takes to its durable read model: alone,
// while a build runs that yields to live events, and while one runs that does not. factor
// is how much the build that yields makes of the median and of the 95th percentile. The
// bound that docs/history.md states is 2 for the median.
func BenchmarkLiveLag(b *testing.B) {
	p := newParts(b, 2)
	p.load(b, benchAggregates)
	for b.Loop() {
		alone := p.live(b, nil, 0)
		var activity Activity
		yielding := p.live(b, &activity, 1)
		unpaced := p.live(b, nil, 2)
		for name, lags := range map[string][]time.Duration{"alone": alone, "building": yielding, "unpaced": unpaced} {
			b.ReportMetric(milliseconds(percentile(lags, 50)), name+"-p50-ms")
			b.ReportMetric(milliseconds(percentile(lags, 95)), name+"-p95-ms")
		}
		b.ReportMetric(float64(percentile(yielding, 50))/float64(percentile(alone, 50)), "factor-p50")
		b.ReportMetric(float64(percentile(yielding, 95))/float64(percentile(alone, 95)), "factor-p95")
	}
	b.ReportMetric(0, "ns/op")
}

func percentile(lags []time.Duration, percent int) time.Duration {
	slices.Sort(lags)
	return lags[len(lags)*percent/100]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// live projects live events for a while and gives how long each took. With a build, it
// runs beside them for the whole time: it begins anew whenever it has ended.
func (p *parts) live(b *testing.B, activity *Activity, build int) []time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), liveFor)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	if build > 0 {
		pace := NewPace(PaceOptions{})
		if activity != nil {
			pace = NewPace(PaceOptions{Live: activity})
		}
		workers, err := New(Options{Source: p.reader, Targets: p, Store: p, Parking: p, Follower: p, Pace: pace})
		if err != nil {
			b.Fatal(err)
		}
		ranges, _, err := workers.Plan(ctx, testJob)
		if err != nil {
			b.Fatal(err)
		}
		for worker := range 2 {
			running.Go(func() {
				for i := worker; ctx.Err() == nil; i += 2 {
					_ = workers.Build(ctx, testJob, ranges[i%len(ranges)], &saver{saves: -1})
				}
			})
		}
	}
	var mu sync.Mutex
	var lags []time.Duration
	var sessions sync.WaitGroup
	for session := range liveSessions {
		sessions.Go(func() {
			tick := time.NewTicker(time.Second * liveSessions / liveRate)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				if activity != nil {
					activity.Note()
				}
				start := time.Now()
				if err := p.project(context.WithoutCancel(ctx), fmt.Sprintf("live-%d-%d-%d-%d", build, b.N, session, n)); err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				lags = append(lags, time.Since(start))
				mu.Unlock()
			}
		})
	}
	sessions.Wait()
	return lags
}

// project is the path of a live event: load, fold, write.
func (p *parts) project(ctx context.Context, id string) error {
	document, err := bson.Marshal(bson.D{
		{Key: "aggregateId", Value: id}, {Key: "aggregateType", Value: "Order"}, {Key: "eventId", Value: int64(1)},
		{Key: "eventType", Value: "OrderPlaced"}, {Key: "payload", Value: bson.D{{Key: "customer", Value: "c"}}},
	})
	if err != nil {
		return err
	}
	ev, err := p.reader.Read(document)
	if err != nil {
		return err
	}
	unit := p.Unit(id)
	unit.Collection = "live"
	states, err := p.Load(ctx, []model.Unit{unit})
	if err != nil {
		return err
	}
	defer p.Release(states)
	fold := p.projection.Begin(states[0].Document, 0)
	if failure := fold.Add([]*event.Event{&ev}); failure != nil {
		return failure
	}
	write, _ := fold.Write(unit, states[0])
	_, err = p.Write(ctx, []model.Write{write})
	return err
}
