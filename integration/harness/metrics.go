package harness

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/penstock-cdc/penstock/pkg/statuspage"
)

// Metrics are one scrape of a service, by family name.
type Metrics = statuspage.Families

// Metrics scrapes the process.
func (p *Process) Metrics(ctx context.Context) (Metrics, error) {
	status, body, err := p.Get(ctx, "/metrics", nil)
	var families Metrics
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	if err == nil {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err = parser.TextToMetricFamilies(bytes.NewReader(body))
	}
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", p.Name, err)
	}
	return families, nil
}
