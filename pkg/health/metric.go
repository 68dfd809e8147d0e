package health

import "github.com/prometheus/client_golang/prometheus"

// collector exports the conditions of the verdict.
type collector struct {
	health    *Health
	condition *prometheus.Desc
}

// Collector exports the verdict as a metric with that name.
func (h *Health) Collector(name string) prometheus.Collector {
	return &collector{h, prometheus.NewDesc(name,
		"Conditions of this process that a person must know, by name and by what follows: degraded, or not ready. Absent while the verdict is ok; /readyz has the reasons and the remedies.",
		[]string{"condition", "state"}, nil)}
}

func (c *collector) Describe(to chan<- *prometheus.Desc) { to <- c.condition }

func (c *collector) Collect(to chan<- prometheus.Metric) {
	counts := map[[2]string]float64{}
	for _, found := range c.health.Verdict().Conditions {
		counts[[2]string{found.Name, string(found.State)}]++
	}
	for labels, n := range counts {
		to <- prometheus.MustNewConstMetric(c.condition, prometheus.GaugeValue, n, labels[:]...)
	}
}
