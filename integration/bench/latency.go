package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// shopTime is the time of the events that are made here.
var shopTime = time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)

// capacityWindow bounds the events between the store and the read models while the capacity
// is measured.
const capacityWindow = 4000

// latencyRows measure the time from an insert to the read model at shares of the capacity, and
// at which share it stays short.
func latencyRows() []row {
	rows := []row{capacity()}
	for _, percent := range []int{25, 50, 80} {
		rows = append(rows, latencyAt(percent))
	}
	return append(rows, latencySustained("aggregate", with{}), latencySustained("bucket", with{publisher: inBuckets}))
}

// capacity measures how many events both services bring to read models while the same
// machine stores them and watches the read models.
func capacity() row {
	return row{
		name: "latency/capacity", title: "Both services, while events are stored and read models are watched: the capacity",
		measure: func(ctx context.Context, b *bench) (reading, error) {
			m, err := b.measureCapacity(ctx, with{})
			if err != nil {
				return reading{}, err
			}
			b.capacity = m.rate
			return reading{figures: []figure{{"", unitRate, m.rate}}, costs: m.costs}, nil
		},
	}
}

func (b *bench) measureCapacity(ctx context.Context, services with) (_ measured, err error) {
	// More events than can be stored in the time.
	w := shop.New(int(b.scale.capacityFor.Seconds()*20_000), 1)
	touchMemory(len(w.Events) / 2)
	e, o, err := b.newLoaded(ctx, w, services)
	if err != nil {
		return measured{}, err
	}
	defer func() { err = errors.Join(err, o.stop(), e.close()) }()
	return e.underLoad(ctx, o, w.Events, func(elapsed time.Duration, shown int) int {
		if elapsed > b.scale.capacityFor {
			return -1
		}
		return shown + capacityWindow
	})
}

func latencyAt(percent int) row {
	return row{
		name: fmt.Sprintf("latency/at-%d", percent), title: fmt.Sprintf("Insert to read model at %d %% of the capacity", percent),
		measure: func(ctx context.Context, b *bench) (reading, error) {
			if b.capacity == 0 {
				m, err := b.measureCapacity(ctx, with{})
				if err != nil {
					return reading{}, err
				}
				b.capacity = m.rate
			}
			latencies, m, err := b.latenciesAt(ctx, b.capacity*float64(percent)/100, with{})
			if err != nil {
				return reading{}, err
			}
			return reading{costs: m.costs, figures: []figure{
				{"p50", unitMillis, percentile(latencies, 0.5)},
				{"p99", unitMillis, percentile(latencies, 0.99)},
				{"p99.9", unitMillis, percentile(latencies, 0.999)},
				{"stored", unitRate, m.rate},
			}}, nil
		},
	}
}

const (
	// sustainedMillis bounds the p99 of a rate that counts as sustained.
	sustainedMillis = 100
	// sustainedSteps is how many rates a bisection tries: it ends within 1/32 of the capacity.
	sustainedSteps = 5
)

// latencySustained finds the largest rate at which the p99 stays short, by bisection between
// nothing and the capacity of the session mode.
func latencySustained(mode string, services with) row {
	return row{
		name: "latency/sustained-" + mode, title: fmt.Sprintf("The largest rate with a p99 below %d ms, a session for each %s", sustainedMillis, mode), loads: sustainedSteps,
		measure: func(ctx context.Context, b *bench) (r reading, err error) {
			capacity, err := b.measureCapacity(ctx, services)
			if err != nil {
				return reading{}, err
			}
			low, high := 0.0, 1.0
			for range sustainedSteps {
				share := (low + high) / 2
				latencies, m, err := b.latenciesAt(ctx, capacity.rate*share, services)
				if err != nil {
					return reading{}, err
				}
				p99 := percentile(latencies, 0.99)
				fmt.Fprintf(b.Progress, "  at %.0f events/s, the p99 is %.1f ms\n", m.rate, p99)
				if p99 >= sustainedMillis {
					high = share
					continue
				}
				low = share
				r = reading{costs: m.costs, figures: []figure{{"", unitRate, m.rate}, {"p99", unitMillis, p99}}}
			}
			if low == 0 {
				return reading{}, fmt.Errorf("the p99 is %d ms or more at %.0f events/s", sustainedMillis, capacity.rate*high)
			}
			r.limits = []limit{{figure: figure{fmt.Sprintf("the capacity, with %d events under way", capacityWindow), unitRate, capacity.rate}}}
			return r, nil
		},
	}
}

// latenciesAt stores events at a rate, and returns the sorted times until their read models have
// them.
func (b *bench) latenciesAt(ctx context.Context, rate float64, services with) (latencies []time.Duration, m measured, err error) {
	w := shop.New(int(rate*(b.scale.warmUp+b.scale.latencyFor).Seconds()), 1)
	touchMemory(len(w.Events))
	e, o, err := b.newLoaded(ctx, w, services)
	if err != nil {
		return nil, measured{}, err
	}
	defer func() { err = errors.Join(err, o.stop(), e.close()) }()
	warm := false
	m, err = e.underLoad(ctx, o, w.Events, func(elapsed time.Duration, _ int) int {
		if !warm && elapsed > b.scale.warmUp {
			warm = true
			o.Latencies() // The first events open links and start accepts.
		}
		return int(rate * elapsed.Seconds())
	})
	return o.Latencies(), m, err
}

// percentile returns the value in ms that this share of the sorted latencies does not
// exceed.
func percentile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := int(share * float64(len(sorted)-1))
	return float64(sorted[at].Microseconds()) / 1000
}

// newLoaded makes an environment with live services and an observer of their read models.
func (b *bench) newLoaded(ctx context.Context, w *workload.Workload, services with) (*environment, *observing, error) {
	e, err := b.newEnvironment(ctx, services)
	if err != nil {
		return nil, nil, err
	}
	o, err := func() (*observing, error) {
		if err := e.goLive(ctx); err != nil {
			return nil, err
		}
		if _, err := e.startProjectors(ctx, 1); err != nil {
			return nil, err
		}
		if err := e.startPublisher(ctx); err != nil {
			return nil, err
		}
		return e.observe(ctx, w)
	}()
	if err != nil {
		return nil, nil, errors.Join(err, e.close())
	}
	return e, o, nil
}
