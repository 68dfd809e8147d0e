package statuspage

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"
)

func gather(t interface{ Fatal(...any) }, r *prometheus.Registry) Families {
	gathered, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families := make(Families)
	for _, f := range gathered {
		families[f.GetName()] = f
	}
	return families
}

func TestReadings(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	events := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "events_total", Help: "h"}, []string{"result", "kind"})
	depth := prometheus.NewGauge(prometheus.GaugeOpts{Name: "depth", Help: "h"})
	r.MustRegister(events, depth)
	events.WithLabelValues("applied", "a").Add(10)
	events.WithLabelValues("applied", "b").Add(5)
	events.WithLabelValues("parked", "a").Add(2)
	depth.Set(7)
	before := gather(t, r)
	events.WithLabelValues("applied", "b").Add(8)
	now := gather(t, r)

	for name, c := range map[string]struct {
		read Reading
		want float64
	}{
		"value of a gauge":                {Value("depth"), 7},
		"value summed over series":        {Value("events_total"), 25},
		"value of no metric":              {Value("nothing"), math.NaN()},
		"count of no series":              {Count("nothing"), 0},
		"count":                           {Count("depth"), 7},
		"rate":                            {Rate("events_total"), 4},
		"rate of some series":             {Rate("events_total", "kind", "a"), 0},
		"rate of other series":            {Rate("events_total", "result", "applied"), 4},
		"rate of one series":              {Rate("events_total", "result", "applied", "kind", "b"), 4},
		"rate of no series":               {Rate("events_total", "result", "other"), math.NaN()},
		"rate of no metric":               {Rate("nothing"), math.NaN()},
		"quantile of no metric":           {Quantile(0.5, "nothing"), math.NaN()},
		"quantile of another metric":      {Quantile(0.5, "depth"), math.NaN()},
		"label that no series has at all": {Rate("depth", "result", "applied"), math.NaN()},
	} {
		if got := c.read(now, before, 2); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if got := Rate("events_total")(now, nil, 2); !math.IsNaN(got) {
		t.Errorf("a rate without a gathering before: %v", got)
	}
	if got := Rate("events_total")(before, now, 2); got != 0 {
		t.Errorf("a rate after a restart of the counter: %v", got)
	}
}

// A quantile lies in the bucket of the observation with its rank, independently of earlier
// observations.
func TestQuantileOfRecentObservations(t *testing.T) {
	t.Parallel()
	bounds := []float64{1, 2, 5, 10}
	rapid.Check(t, func(t *rapid.T) {
		r := prometheus.NewRegistry()
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds", Help: "h", Buckets: bounds})
		r.MustRegister(h)
		values := rapid.SliceOfN(rapid.Float64Range(0.001, 20), 1, 50)
		for _, v := range values.Draw(t, "earlier") {
			h.Observe(v)
		}
		before := gather(t, r)
		recent := values.Draw(t, "recent")
		for _, v := range recent {
			h.Observe(v)
		}
		q := rapid.Float64Range(0.01, 1).Draw(t, "q")
		got := Quantile(q, "seconds")(gather(t, r), before, 2)

		upTo := func(limit float64) (n float64) {
			for _, v := range recent {
				if v <= limit {
					n++
				}
			}
			return n
		}
		lower := 0.0
		for _, upper := range append(bounds, math.Inf(1)) {
			if upTo(upper) >= q*float64(len(recent)) {
				if got < lower || got > upper || got > bounds[len(bounds)-1] {
					t.Fatalf("got %v, want one of (%v, %v] of %v", got, lower, upper, recent)
				}
				return
			}
			lower = upper
		}
	})
}

// A process that does not lead reads no stream, so it is not "0 s behind".
func TestWhileHasNoValueUnlessTheGaugeIsOn(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	leader := prometheus.NewGauge(prometheus.GaugeOpts{Name: "leader", Help: "h"})
	lag := prometheus.NewGauge(prometheus.GaugeOpts{Name: "lag", Help: "h"})
	registry.MustRegister(leader, lag)
	r := NewRecorder(registry, []Stage{{Figures: []Figure{{Read: While("leader", Value("lag"))}}}})
	read := func() *float64 {
		r.record(time.Now())
		return r.view()[0].Figures[0].Value
	}
	if v := read(); v != nil {
		t.Errorf("a standby reads %v", *v)
	}
	leader.Set(1)
	if v := read(); v == nil || *v != 0 {
		t.Error("the leader has no value")
	}
}
