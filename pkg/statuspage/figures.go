package statuspage

import (
	"math"

	dto "github.com/prometheus/client_model/go"
)

// Unit says how the page formats a figure.
type Unit string

// Units.
const (
	Number  Unit = ""
	PerSec  Unit = "/s"
	Seconds Unit = "s"
	Bytes   Unit = "B"
)

// Reading computes one number from the metrics of a process. previous is the gathering
// before now, nil for the first one, and seconds is the time between both. NaN means that
// there is no value; the page shows a dash.
type Reading func(now, previous Families, seconds float64) float64

// Families are the metrics of one gathering, by name.
type Families map[string]*dto.MetricFamily

// each calls do for every series of a metric that has the labels: pairs of names and values.
func (f Families) each(name string, labels []string, do func(*dto.Metric)) {
	for _, m := range f[name].GetMetric() {
		found := 0
		for _, l := range m.GetLabel() {
			for i := 0; i < len(labels); i += 2 {
				if labels[i] == l.GetName() && labels[i+1] == l.GetValue() {
					found += 2
				}
			}
		}
		if found == len(labels) {
			do(m)
		}
	}
}

// sum adds the values of the series of a metric, and counts them.
func (f Families) sum(name string, labels ...string) (total float64, series int) {
	f.each(name, labels, func(m *dto.Metric) {
		total += value(m)
		series++
	})
	return total, series
}

// Sum adds the values of the series of a metric that have the labels: pairs of names and values.
// A metric that does not exist sums to 0.
func (f Families) Sum(name string, labels ...string) float64 {
	total, _ := f.sum(name, labels...)
	return total
}

// value returns the value of a counter or a gauge, or the number of observations of a
// histogram.
func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	}
	return m.GetUntyped().GetValue()
}

// Value reads a gauge: the sum of its series.
func Value(metric string) Reading {
	return func(now, _ Families, _ float64) float64 {
		total, series := now.sum(metric)
		if series == 0 {
			return math.NaN()
		}
		return total
	}
}

// Count is [Value] for a metric without series while there is nothing to count. It then
// reads 0.
func Count(metric string) Reading {
	return func(now, _ Families, _ float64) float64 {
		return now.Sum(metric)
	}
}

// While suppresses a reading unless a gauge reads more than 0: there is no value then.
func While(gauge string, reading Reading) Reading {
	on := Value(gauge)
	return func(now, previous Families, seconds float64) float64 {
		if !(on(now, previous, seconds) > 0) {
			return math.NaN()
		}
		return reading(now, previous, seconds)
	}
}

// Rate reads the growth per second of a counter, or of a histogram's number of
// observations. labels are pairs of names and values that a series must have.
func Rate(metric string, labels ...string) Reading {
	return func(now, previous Families, seconds float64) float64 {
		total, series := now.sum(metric, labels...)
		if series == 0 || previous == nil || seconds <= 0 {
			return math.NaN()
		}
		return max(0, total-previous.Sum(metric, labels...)) / seconds
	}
}

// Quantile reads a quantile of a histogram's observations since the previous gathering,
// interpolated within its bucket; NaN if there were none. Above the last bound, it returns
// the last bound.
func Quantile(q float64, metric string) Reading {
	return func(now, previous Families, _ float64) float64 {
		bounds, counts := now.buckets(metric)
		if previous != nil {
			if _, before := previous.buckets(metric); len(before) == len(counts) {
				for i := range counts {
					counts[i] -= before[i]
				}
			}
		}
		return quantile(q, bounds, counts)
	}
}

// buckets returns the upper bounds of a histogram and the number of observations up to
// each, summed over its series; the last bound is infinite.
func (f Families) buckets(name string) (bounds, counts []float64) {
	f.each(name, nil, func(m *dto.Metric) {
		h := m.GetHistogram()
		if bounds == nil {
			for _, b := range h.GetBucket() {
				bounds = append(bounds, b.GetUpperBound())
			}
			bounds = append(bounds, math.Inf(1))
			counts = make([]float64, len(bounds))
		}
		for i, b := range h.GetBucket() {
			counts[i] += float64(b.GetCumulativeCount())
		}
		counts[len(counts)-1] += float64(h.GetSampleCount())
	})
	return bounds, counts
}

func quantile(q float64, bounds, cumulative []float64) float64 {
	if len(cumulative) == 0 || cumulative[len(cumulative)-1] <= 0 {
		return math.NaN()
	}
	rank := q * cumulative[len(cumulative)-1]
	for i, count := range cumulative {
		if count < rank {
			continue
		}
		lower, below := 0.0, 0.0
		if i > 0 {
			lower, below = bounds[i-1], cumulative[i-1]
		}
		if math.IsInf(bounds[i], 1) || count == below {
			return lower
		}
		return lower + (bounds[i]-lower)*(rank-below)/(count-below)
	}
	return bounds[len(bounds)-1]
}
