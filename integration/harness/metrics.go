package harness

import (
	"context"
	"fmt"
	"io"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are one scrape of a service, by family name.
type Metrics map[string]*dto.MetricFamily

// Metrics scrapes the process.
func (p *Process) Metrics(ctx context.Context) (Metrics, error) {
	var families Metrics
	err := p.get(ctx, "/metrics", func(body io.Reader) (err error) {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err = parser.TextToMetricFamilies(body)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", p.Name, err)
	}
	return families, nil
}

// Sum adds up the counters and gauges of a family whose labels contain the given pairs of
// names and values. A family that does not exist sums to 0.
func (m Metrics) Sum(family string, labels ...string) float64 {
	var sum float64
	for _, metric := range m[family].GetMetric() {
		if !hasLabels(metric, labels) {
			continue
		}
		sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sum
}

func hasLabels(metric *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		found := false
		for _, pair := range metric.GetLabel() {
			found = found || pair.GetName() == labels[i] && pair.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}
