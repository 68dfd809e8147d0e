package history

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// liveRate is the number of live events per second in liveSessions sessions.
	liveRate     = 400
	liveSessions = 8
	// liveFor is the duration of each measurement.
	liveFor = 6 * time.Second
)

// BenchmarkLiveLag measures the time from a live event to its durable read model: without
// a build, beside a build that yields to live events, and beside one that does not.
// factor is the ratio of the lag beside the build that yields to the lag without a build,
// for the median and for the 95th percentile. docs/history.md states a bound of 2 for the
// median.
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

// live projects live events for a while and returns the time of each. A build, if given,
// runs beside them for the whole time: it is started again whenever it has ended.
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
		workers := New(Options{Events: p.reader, Targets: p.targets, Store: p, Repairer: p, Parking: p, Engine: p, Pace: pace})
		ranges, _, err := workers.plan(ctx, testJob)
		if err != nil {
			b.Fatal(err)
		}
		for worker := range 2 {
			running.Go(func() {
				for i := worker; ctx.Err() == nil; i += 2 {
					_ = workers.build(ctx, testJob, ranges[i%len(ranges)], &saver{saves: -1})
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
					activity.Begin()
				}
				start := time.Now()
				if err := p.project(context.WithoutCancel(ctx), fmt.Sprintf("live-%d-%d-%d-%d", build, b.N, session, n)); err != nil {
					b.Error(err)
					return
				}
				if activity != nil {
					activity.End()
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

// project does what a projector does for a live event: load, fold, write.
func (p *parts) project(ctx context.Context, id string) error {
	document := testkit.Raw(bson.D{
		{Key: "aggregateId", Value: id}, {Key: "aggregateType", Value: "Order"}, {Key: "eventId", Value: int64(1)},
		{Key: "eventType", Value: "OrderPlaced"}, {Key: "payload", Value: bson.D{{Key: "customer", Value: "c"}}},
	})
	ev, err := p.reader.Read(document)
	if err != nil {
		return err
	}
	unit := p.target().Unit(id)
	unit.Collection = "live"
	states, err := p.Load(ctx, []model.Unit{unit})
	if err != nil {
		return err
	}
	defer p.Release(states)
	fold := p.projection.Begin(states[0].Document)
	if failure := fold.Add([]*event.Event{&ev}); failure != nil {
		return failure
	}
	write, _ := fold.Write(unit, states[0])
	_, err = p.Write(ctx, []model.Write{write})
	return err
}
