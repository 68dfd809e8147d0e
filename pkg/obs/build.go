package obs

import "github.com/prometheus/client_golang/prometheus"

// BuildInfo makes a metric with that name, whose value is always 1. Its label version is
// the version of the process.
func BuildInfo(name, version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        name,
		Help:        "Always 1; the label version has the release, the commit and the Go release of the process.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
}
