package harness

import (
	"context"
	"fmt"
	"io"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/penstock-cdc/penstock/pkg/statuspage"
)

// Metrics are one scrape of a service, by family name.
type Metrics = statuspage.Families

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
